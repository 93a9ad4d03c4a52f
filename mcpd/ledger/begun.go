package ledger

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// A beginning is a line of a table's text that tells of what is under way. It begins with
// the member "begun", and is no row: readers of rows pass over it.
const beginning = `{"begun":true`

func isBeginning(line []byte) bool { return bytes.HasPrefix(line, []byte(beginning)) }

// Begun writes the beginning of a call that is under way to the text of mcp_calls, and
// says whether there is such a call.
func (db *DB) Begun(id uint64) bool {
	db.mu.Lock()
	p := db.pending[id]
	db.mu.Unlock()
	if p == nil {
		return false
	}
	line := p.line()
	for _, name := range []string{"outcome", "error_message"} { // of a call that never ends they say that it was interrupted
		key := `"` + name + `":`
		line = bytes.Replace(line, []byte(key+`"`+Interrupted+`"`), []byte(key+"null"), 1)
	}
	_, err := db.enqueue(context.Background(), op{kind: told, queued: true, table: calls, line: append([]byte(beginning+","), line[1:]...)}, nil, db.wake)
	return err == nil
}

// RowBegun writes the beginning of what will be a row of a table to its text.
func (db *DB) RowBegun(ctx context.Context, name string, r Row) error {
	i := tableIndex(name)
	line, err := tables[i].encode(db.red, r)
	if err != nil {
		return err
	}
	_, err = db.enqueue(ctx, op{kind: told, queued: true, table: i, line: append([]byte(beginning), line...)}, nil, db.wake)
	return err
}

// UnderWay is a call under way.
type UnderWay struct {
	ID           uint64
	Begun        time.Time
	Method, Tool string
}

// UnderWay returns the calls that are under way, the oldest first.
func (db *DB) UnderWay() (list []UnderWay) {
	db.mu.Lock()
	for _, p := range db.pending {
		list = append(list, p.call)
	}
	db.mu.Unlock()
	slices.SortFunc(list, func(a, b UnderWay) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// After is how long a call or command runs before its beginning is told: what ends before
// has a line at its end alone.
const After = time.Second

// IfLong calls tell After from now, unless stop is called before. When stop returns, tell
// does not run.
func IfLong(tell func()) (stop func()) {
	var mu sync.Mutex // held while tell runs
	stopped := false
	t := time.AfterFunc(After, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			tell()
		}
	})
	return func() {
		if !t.Stop() {
			mu.Lock()
			defer mu.Unlock()
		}
		stopped = true
	}
}
