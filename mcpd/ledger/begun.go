package ledger

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// A beginning is a line of a table's text that tells of what is under way: it has a
// member "begun" in front. It is no row: who reads rows passes over it.
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
	for _, name := range []string{"outcome", "error_message"} { // which hold what an end that never comes would leave
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

// After is when a call or command is told to be under way: what ends before has a line
// at its end alone.
const After = time.Second

// Later has tell be called After from now, unless it is stopped before. Stopped returns when
// tell is not under way.
func Later(tell func()) (stop func()) {
	var once sync.Mutex
	stopped := false
	t := time.AfterFunc(After, func() {
		once.Lock()
		defer once.Unlock()
		if !stopped {
			tell()
		}
	})
	return func() {
		if !t.Stop() {
			once.Lock()
			defer once.Unlock()
		}
		stopped = true
	}
}
