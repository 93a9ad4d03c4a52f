package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"hutch/fs"
)

// The file has a limit. When the next batch would take it over that, the
// oldest records go first: those of the table that has most, so that a flood
// in one table costs the others nothing. Their pages hold what comes next.
// The last record of a table always stays: its offset is where the next is.

const (
	standardLimit = 256 << 20
	leastLimit    = 1 << 20
	maxDrop       = 4 << 20 // bytes that are dropped at a time, if no batch needs more
	treeRoom      = 128 << 10
)

// errRoom tells that records have to go before a batch can be written.
var errRoom = errors.New("the file is at its limit")

// SetLimit sets how many bytes the file may take; 0 is 256 MiB. A file that
// is larger keeps its size; the records in it go, down to the limit, with the next commit.
func (db *DB) SetLimit(n int64) {
	if n == 0 {
		n = standardLimit
	}
	db.limit.Store(max(n, leastLimit))
}

// batchLimit returns how many bytes of lines a batch may have: in a small
// file it is a part of what that can hold.
func (db *DB) batchLimit() int { return int(min(batchBytes, db.limit.Load()/16)) }

// admit refuses a call when the ones under way alone would fill a quarter of
// the file: they are never dropped. The caller holds db.mu.
func (db *DB) admit(p *pending, size int) error {
	if db.held+int64(size) > db.limit.Load()/4 {
		return fmt.Errorf("%w: session database: too many calls are under way", fs.ErrNoSpace)
	}
	p.size = size
	db.held += int64(size)
	return nil
}

// release undoes admit. The caller holds db.mu.
func (db *DB) release(p *pending) { db.held -= int64(p.size) }

// excess returns how many bytes the pages in use would be over the limit when tx has
// written lines that take n bytes of them. The limit may have been lowered.
func (db *DB) excess(tx *bolt.Tx, n int64) int64 {
	s := db.bolt.Stats()
	free := int64(s.FreePageN+s.PendingPageN) * db.pageSize
	return tx.Size() - free + n - db.limit.Load()
}

// room returns how many bytes of pages ops may take.
func (db *DB) room(ops []op) int64 {
	n := int64(treeRoom)
	for i := range ops {
		n += db.pages(len(ops[i].line))
	}
	return n + n/4
}

// pages returns what a line takes of pages: a long one leaves some of them
// empty.
func (db *DB) pages(line int) int64 {
	n := int64(line) + 48
	if n > db.pageSize/4 {
		n = (n + db.pageSize - 1) / db.pageSize * db.pageSize
	}
	return n
}

// A drop is what of a table's beginning goes.
type drop struct {
	lines int
	bytes int64
	base  int64 // offset of the first that stays
}

// drop makes room for n bytes of pages, in a transaction of its own: only
// the next can use what it frees. Of each table that lost records a row in
// vm_events tells.
func (db *DB) drop(n int64) error {
	n = max(n, min(maxDrop, db.limit.Load()/32))
	drops := make([]drop, len(tables))
	adds := make([]addition, len(tables))
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		for left := n; left > 0; {
			i := db.largest(drops)
			freed, err := db.dropFrom(tx, i, left, &drops[i])
			if err != nil {
				return err
			}
			if freed == 0 {
				break // all tables are down to their last record
			}
			left -= freed
		}
		return db.noteDrops(tx, drops, adds)
	})
	if err != nil {
		return err
	}
	for i := range drops {
		if drops[i].lines > 0 {
			db.logs[i].cut(drops[i].base)
			db.opt.Told(db.dropped(i, drops[i]))
		}
	}
	db.extend(adds)
	return nil
}

// largest returns the table that has most after drops.
func (db *DB) largest(drops []drop) int {
	most, at := int64(-1), 0
	for i, l := range db.logs {
		begin, end := l.Span()
		if drops[i].lines > 0 {
			begin = drops[i].base
		}
		if end-begin > most {
			most, at = end-begin, i
		}
	}
	return at
}

// dropFrom deletes the oldest lines of a table until they took n bytes of
// pages, and returns how many they took.
func (db *DB) dropFrom(tx *bolt.Tx, i int, n int64, d *drop) (freed int64, err error) {
	b := tx.Bucket([]byte(tables[i].name))
	if b == nil {
		return 0, nil
	}
	last, _ := b.Cursor().Last()
	last = bytes.Clone(last)
	var keys [][]byte
	c := b.Cursor()
	k, v := c.First()
	for ; k != nil && freed < n && !bytes.Equal(k, last); k, v = c.Next() {
		keys = append(keys, bytes.Clone(k))
		freed += db.pages(len(v))
		d.bytes += int64(len(v))
	}
	if len(k) == 8 {
		d.base = int64(binary.BigEndian.Uint64(k))
	}
	d.lines += len(keys)
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return 0, err
		}
	}
	return freed, nil
}

// noteDrops writes what was dropped.
func (db *DB) noteDrops(tx *bolt.Tx, drops []drop, adds []addition) error {
	t := tableIndex(VMs)
	for i := range drops {
		if drops[i].lines == 0 {
			continue
		}
		line, err := tables[t].encode(db.red, Row{"timestamp": time.Now(), "event": EventDropped, "text": db.dropped(i, drops[i])})
		if err != nil {
			return err
		}
		if err := db.append(tx, &adds[t], &op{kind: row, table: t, line: line}); err != nil {
			return err
		}
	}
	return sequence(adds)
}

// EventDropped is the event of records that went since there were too many.
const EventDropped = "records.dropped"

func (db *DB) dropped(i int, d drop) string {
	return fmt.Sprintf("%s: the oldest %d lines, %.1fMiB: more than %.1fMiB of records are not kept",
		tables[i].name, d.lines, mib(d.bytes), mib(db.limit.Load()))
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// Kept returns how many bytes the records have that are there.
func (db *DB) Kept() (n int64) {
	for _, l := range db.logs {
		begin, end := l.Span()
		n += end - begin
	}
	return n
}
