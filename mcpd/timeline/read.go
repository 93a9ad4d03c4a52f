// Package timeline tells what happened in a VM, in order of time: an event is a row
// of any of the ledger's tables, and a line that says when it began, of which
// layer and trace it is, how long it took, and what came of it.
package timeline

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"slices"

	"hutch/mcpd/ledger"
)

// An event is one of the timeline, and its line.
type event struct {
	time  string // which compares as the time does
	layer int
	id    uint64
	twin  string // what it has in common with the same event in another table
	line  []byte
}

func (e *event) compare(o *event) int {
	return cmp.Or(cmp.Compare(e.time, o.time), cmp.Compare(e.layer, o.layer), cmp.Compare(e.id, o.id))
}

// newest are the newest events, the oldest of them first in the heap: what is
// kept of any number.
type newest struct {
	events []event
	most   int
}

func (n *newest) Len() int           { return len(n.events) }
func (n *newest) Less(i, j int) bool { return n.events[i].compare(&n.events[j]) < 0 }
func (n *newest) Swap(i, j int)      { n.events[i], n.events[j] = n.events[j], n.events[i] }
func (n *newest) Push(x any)         { n.events = append(n.events, x.(event)) }
func (n *newest) Pop() any {
	last := len(n.events) - 1
	e := n.events[last]
	n.events = n.events[:last]
	return e
}

// full says whether an event of that time is older than all that are kept.
func (n *newest) full(when string) bool { return len(n.events) >= n.most && when < n.events[0].time }

func (n *newest) add(e event) {
	if heap.Push(n, e); len(n.events) > n.most {
		heap.Pop(n)
	}
}

// timeFormat is that of the ledger.
const timeFormat = "2006-01-02T15:04:05.000000Z"

var (
	stampKey = []byte(`,"timestamp":"`)
	traceKey = []byte(`"trace_id":"`)
)

// stamp returns the time of a row, "" if the line is none.
func stamp(line []byte) string {
	i := bytes.Index(line, stampKey)
	if i < 0 || len(line) < i+len(stampKey)+len(timeFormat) {
		return ""
	}
	i += len(stampKey)
	return string(line[i : i+len(timeFormat)])
}

// take keeps the event of a row, if it is wanted. Most rows are ruled out before
// they are decoded.
func (n *newest) take(i int, line []byte, q *bounds) {
	when := stamp(line)
	if when == "" || when < q.since || q.until != "" && when > q.until || n.full(when) || q.trace != nil && !bytes.Contains(line, q.trace) {
		return
	}
	var r record
	if json.Unmarshal(line, &r) != nil || q.trace != nil && r.Trace != q.id {
		return
	}
	e := event{time: when, layer: i, id: r.ID, line: layers[i].line(&r)}
	switch layers[i].table {
	case ledger.VMs, ledger.Security:
		e.twin = r.Event + " " + r.Text
	case ledger.Snapshots:
		e.twin = r.Event + " " + because(r.Name, r.Text) // as the text of the other has it
	}
	n.add(e)
}

// bounds are a Query as a row is compared with it.
type bounds struct {
	since, until string
	trace        []byte
	id           string
}

func (q *Query) bounds() (b bounds) {
	if !q.Since.IsZero() {
		b.since = q.Since.UTC().Format(timeFormat)
	}
	if !q.Until.IsZero() {
		b.until = q.Until.UTC().Format(timeFormat)
	}
	if q.Trace != "" {
		b.id, b.trace = q.Trace, append(bytes.Clone(traceKey), q.Trace...)
	}
	return b
}

// single drops the events of the VM that have a layer of their own, too: its table
// has all that is told of it.
func single(events []event) []event {
	type key struct{ time, twin string }
	own := map[key]bool{}
	for _, e := range events {
		if e.twin != "" && layers[e.layer].table != ledger.VMs {
			own[key{e.time, e.twin}] = true
		}
	}
	return slices.DeleteFunc(events, func(e event) bool {
		return layers[e.layer].table == ledger.VMs && own[key{e.time, e.twin}]
	})
}

// Read returns the events that a Query wants, a line each. Calls and commands are
// among them when they have ended.
func Read(ctx context.Context, db *ledger.DB, q Query) (string, error) {
	limit, b := cmp.Or(q.Limit, Lines), q.bounds()
	n := &newest{most: 2 * limit} // of which half may be told twice
	for i := range layers {
		l := &layers[i]
		if q.Layers != nil && !slices.Contains(q.Layers, l.name) {
			continue
		}
		if err := db.Lines(ctx, l.table, func(line []byte) error {
			n.take(i, line, &b)
			return ctx.Err()
		}); err != nil {
			return "", err
		}
	}
	slices.SortFunc(n.events, func(a, b event) int { return a.compare(&b) })
	events := single(n.events)
	var out bytes.Buffer
	for _, e := range events[max(0, len(events)-limit):] {
		out.Write(e.line)
	}
	return out.String(), nil
}
