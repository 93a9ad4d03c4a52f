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
	"strings"
	"time"

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
func (n *newest) full(when []byte) bool {
	return len(n.events) >= n.most && string(when) < n.events[0].time
}

func (n *newest) add(e event) {
	if heap.Push(n, e); len(n.events) > n.most {
		heap.Pop(n)
	}
}

// timeFormat is that of the ledger.
const timeFormat = "2006-01-02T15:04:05.000000Z"

var traceKey = []byte(`"trace_id":"`)

// take keeps the event of a row, if it is wanted. Most rows are ruled out before
// they are decoded.
func (n *newest) take(i int, row *ledger.Rows, q *bounds) {
	line := row.Record.Line()
	if string(row.Time) < q.since || q.until != "" && string(row.Time) > q.until || n.full(row.Time) || q.trace != nil && !bytes.Contains(line, q.trace) {
		return
	}
	var r record
	if json.Unmarshal(line, &r) != nil || q.trace != nil && r.Trace != q.id {
		return
	}
	e := event{time: string(row.Time), layer: i, id: r.ID, line: layers[i].line(&r)}
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

// times is the range of rows that are looked at.
func (b *bounds) times() ledger.Range {
	r := ledger.All
	r.MinTime, r.MaxTime = b.since, b.until
	return r
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

// Times are looked at from the newest on, back to ever longer ago, until there are
// as many events as are wanted: most who ask want to know of the last minutes.
const (
	firstWindow = time.Minute
	widen       = 8
	widest      = 100 * 365 * 24 * time.Hour
)

// Read returns the events that a Query wants, a line each. Calls and commands are
// among them when they have ended. It holds no more of them than are wanted, twice,
// however many there are.
func Read(ctx context.Context, db *ledger.DB, q Query) (string, error) {
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	limit, top := cmp.Or(q.Limit, Lines), q.Until
	if top.IsZero() {
		top = time.Now()
	}
	for window := firstWindow; ; window *= widen {
		b, from := q.bounds(), top.Add(-window).UTC()
		since := from.Format(timeFormat)
		last := q.Trace != "" || window > widest || from.Year() < 1 || since <= b.since
		if !last {
			b.since = since
		}
		events, err := q.collect(ctx, snap, &b, 2*limit) // of which half may be told twice
		if err != nil {
			return "", err
		}
		if last || len(events) >= limit {
			return text(events[max(0, len(events)-limit):]), nil
		}
	}
}

// collect returns the newest events within bounds, in order.
func (q *Query) collect(ctx context.Context, snap *ledger.Snapshot, b *bounds, most int) ([]event, error) {
	n := &newest{most: most}
	for i := range layers {
		if q.Layers != nil && !slices.Contains(q.Layers, layers[i].name) {
			continue
		}
		rows, err := snap.Rows(ctx, tableOf(layers[i].table), b.times(), ledger.ByLine)
		for more := true; more && err == nil; err = cmp.Or(err, ctx.Err()) {
			if more, err = rows.Next(); more && err == nil {
				n.take(i, rows, b)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(n.events, func(a, b event) int { return a.compare(&b) })
	return single(n.events), nil
}

// tableOf returns the place of a table.
func tableOf(name string) int {
	return slices.IndexFunc(ledger.Tables, func(t ledger.Table) bool { return t.Name == name })
}

func text(events []event) string {
	var out strings.Builder
	for _, e := range events {
		out.Write(e.line)
	}
	return out.String()
}
