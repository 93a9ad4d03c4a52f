package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"hutch/fs"
)

// A Log is a table as a text: its records, a line each, in the order in
// which they were written. What is at an offset stays there. It grows at its
// end, and loses lines at its beginning when the file is full. Any number of
// readers each get all of it.
type Log struct {
	db    *DB
	name  []byte // of the bucket
	table *Table
	index index
	keep  int // bytes of the tail that stay in memory

	mu    sync.Mutex    // guards what follows
	base  int64         // offset of the first line that is kept
	size  int64         // that of the end of what is durable
	tail  []byte        // the last of them
	grown chan struct{} // closed when size changes; nil while nobody waits
}

// Size returns the offset of the text's end.
func (l *Log) Size() int64 {
	_, end := l.Span()
	return end
}

// Span returns the offsets where the text begins and ends.
func (l *Log) Span() (begin, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base, l.size
}

// cut takes away what is before offset base.
func (l *Log) cut(base int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = base
}

// A dropped is the error of a read of what is not kept any more.
type dropped struct{ base int64 } // the offset of what is

func (d *dropped) Error() string { return "the oldest records were dropped" }

// extend adds lines that have become durable.
func (l *Log) extend(lines [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range lines {
		l.tail = append(l.tail, line...)
		l.size += int64(len(line))
		if len(l.tail) > 2*l.keep {
			n := copy(l.tail, l.tail[len(l.tail)-l.keep:])
			l.tail = l.tail[:n]
		}
	}
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
}

// ReadAt reads from offset off. It may return fewer bytes than fit p. At the
// end it returns 0 or, if follow is set, waits for more until ctx is done;
// when the database is closed the end is final.
func (l *Log) ReadAt(ctx context.Context, p []byte, off int64, follow bool) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("%w: offset %d", fs.ErrInvalid, off)
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, size, grown, err := l.fromTail(p, off, follow)
		switch {
		case n > 0 || err != nil:
			return n, err
		case off < size:
			return l.stored(p[:min(int64(len(p)), size-off)], off)
		case !follow:
			return 0, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-l.db.over:
			if off >= l.Size() {
				return 0, nil
			}
		}
	}
}

// fromTail copies what memory holds at off. At the end of the text it
// returns a channel that is closed when there is more.
func (l *Log) fromTail(p []byte, off int64, follow bool) (n int, size int64, grown <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if off < l.base {
		return 0, l.size, nil, &dropped{l.base}
	}
	if off >= l.size {
		if follow && l.grown == nil {
			l.grown = make(chan struct{})
		}
		return 0, l.size, l.grown, nil
	}
	if start := l.size - int64(len(l.tail)); off >= start {
		n = copy(p, l.tail[off-start:])
	}
	return n, l.size, nil, nil
}

// stored reads p, all of which the table holds at off.
func (l *Log) stored(p []byte, off int64) (n int, err error) {
	err = guard(func() error {
		return l.db.bolt.View(func(tx *bolt.Tx) error {
			b := tx.Bucket(l.name)
			if b == nil {
				return fmt.Errorf("%w: table %s is gone", ErrCorrupt, l.name)
			}
			n, err = copyLines(b.Cursor(), p, off)
			return err
		})
	})
	var gone *dropped
	switch {
	case errors.As(err, &gone):
		return 0, err
	case err != nil:
		return 0, storeError(err)
	}
	return n, nil
}

// copyLines fills p from off. The key of a line is its offset.
func copyLines(c *bolt.Cursor, p []byte, off int64) (int, error) {
	k, v := c.Seek(key(uint64(off)))
	switch {
	case k == nil:
		k, v = c.Last()
	case binary.BigEndian.Uint64(k) > uint64(off):
		first := int64(binary.BigEndian.Uint64(k))
		if k, v = c.Prev(); k == nil {
			return 0, &dropped{first}
		}
	}
	n := 0
	for ; k != nil && n < len(p); k, v = c.Next() {
		skip := off + int64(n) - int64(binary.BigEndian.Uint64(k))
		if skip < 0 || skip >= int64(len(v)) {
			return 0, fmt.Errorf("%w: no line at offset %d", ErrCorrupt, off+int64(n))
		}
		n += copy(p[n:], v[skip:])
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: no line at offset %d", ErrCorrupt, off)
	}
	return n, nil
}
