// Package timeline tells what happened in a VM, in order of time: an event is a row
// of any of the ledger's tables, and a line that says when it began, of which
// layer and trace it is, how long it took, and what came of it.
package timeline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// A stream is the rows of a layer that may be wanted, the newest first; one is at
// hand.
type stream struct {
	layer  int
	wanted bool // or only to tell which of the VM's events are of that layer
	rows   *ledger.Rows
}

// next has the next row be at hand that is within bounds and of the trace, and says
// whether there is one. Most others are ruled out before they are decoded.
func (s *stream) next(ctx context.Context, within *ledger.Range, traced []byte) (bool, error) {
	for {
		more, err := s.rows.Next()
		if !more || err != nil || ctx.Err() != nil {
			return false, cmp.Or(err, ctx.Err())
		}
		when := string(s.rows.Time)
		if when >= within.MinTime && (within.MaxTime == "" || when <= within.MaxTime) && bytes.Contains(s.rows.Record.Line(), traced) {
			return true, nil
		}
	}
}

// compare orders the rows at hand. Of one moment the VM's are the oldest.
func compare(a, b *stream) int {
	return cmp.Or(bytes.Compare(a.rows.Time, b.rows.Time), cmp.Compare(a.layer, b.layer))
}

// open opens the streams that a Query wants, but for those without a row.
func (q *Query) open(ctx context.Context, db *ledger.DB, within *ledger.Range, traced []byte) (open []*stream, err error) {
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	wants := func(name string) bool { return q.Layers == nil || slices.Contains(q.Layers, name) }
	for i := range layers {
		s := &stream{layer: i, wanted: wants(layers[i].name)}
		if !s.wanted && !(layers[i].twins && wants(layerVM)) {
			continue
		}
		table := slices.IndexFunc(ledger.Tables, func(t ledger.Table) bool { return t.Name == layers[i].table })
		if s.rows, err = snap.Rows(ctx, table, *within, ledger.ByTimeDown); err != nil {
			return nil, err
		}
		if more, err := s.next(ctx, within, traced); err != nil {
			return nil, err
		} else if more {
			open = append(open, s)
		}
	}
	return open, nil
}

// Read returns the newest events that a Query wants, a line each, in order of
// time. Calls and commands are among them when they have ended. It merges the
// tables from their newest rows on, and reads no more of them than that takes.
func Read(ctx context.Context, db *ledger.DB, q Query) (string, error) {
	within, traced := ledger.All, []byte(nil)
	if !q.Since.IsZero() {
		within.MinTime = q.Since.UTC().Format(fs.TimeFormat)
	}
	if !q.Until.IsZero() {
		within.MaxTime = q.Until.UTC().Format(fs.TimeFormat)
	}
	if q.Trace != "" {
		traced = []byte(`"trace_id":"` + q.Trace + `"`)
	}
	open, err := q.open(ctx, db, &within, traced)
	if err != nil {
		return "", err
	}
	var lines []string
	told := twins{}
	for limit := cmp.Or(q.Limit, DefaultLines); len(open) > 0 && len(lines) < limit; {
		s := slices.MaxFunc(open, compare)
		l, r := layers[s.layer], record{}
		if err := json.Unmarshal(s.rows.Record.Line(), &r); err != nil {
			l.show, r = showDamaged, record{ID: s.rows.ID, Timestamp: string(s.rows.Time), Trace: q.Trace, Name: l.table, Error: err.Error()}
		}
		if (q.Trace == "" || r.Trace == q.Trace) && !told.again(s.layer, &r) && s.wanted {
			lines = append(lines, string(l.line(&r)))
		}
		if more, err := s.next(ctx, &within, traced); err != nil {
			return "", err
		} else if !more {
			open = slices.DeleteFunc(open, func(o *stream) bool { return o == s })
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, ""), nil
}

// twins are the events of one moment that the table of the VM's has, too.
type twins struct {
	at   string
	told map[string]bool
}

// again says whether an event of the VM was told as one of another layer.
func (t *twins) again(layer int, r *record) bool {
	if t.at != r.Timestamp {
		*t = twins{at: r.Timestamp, told: map[string]bool{}}
	}
	event := r.Event + " " + because(r.Name, r.Text) // as the text of the VM's has it
	if layers[layer].twins {
		t.told[event] = true
	}
	return layers[layer].name == layerVM && t.told[event]
}
