package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hutch/fs"
)

// blockSize is how many bytes of lines a block has, or a little less.
const blockSize = 64 << 10

// maxBlock is more than any line takes.
const maxBlock = 4 * maxRecord

// A block is lines of a table that follow one another, and what is known of
// them. Neither numbers nor times ascend from line to line everywhere: a call has
// its number from its beginning and its line from its end.
type block struct {
	start, end       int64 // offsets
	minID, maxID     uint64
	minTime, maxTime string
	bad              []int64 // offsets of lines that are no records
}

// An index is the blocks of a table, in order and without gaps, from its
// beginning to where it was last read: so an append pays nothing for it. It is in
// memory only, about 200 bytes a block.
type index struct {
	mu     sync.Mutex // guards what follows; held while the table is read
	blocks []block
	bad    int // lines in them that are no records
}

// A Range says which rows are wanted. Times are compared as texts.
type Range struct {
	MinID, MaxID     uint64
	MinTime, MaxTime string // MaxTime: empty is no limit
}

// All is the range of all rows.
var All = Range{MaxID: 1<<64 - 1}

// holds says whether a row is in it.
func (r *Range) holds(id uint64, when []byte) bool {
	return id >= r.MinID && id <= r.MaxID && string(when) >= r.MinTime && (r.MaxTime == "" || string(when) <= r.MaxTime)
}

// has says whether a block may have rows in it.
func (r *Range) has(b *block) bool {
	return b.maxID >= r.MinID && b.minID <= r.MaxID && b.maxTime >= r.MinTime && (r.MaxTime == "" || b.minTime <= r.MaxTime)
}

// find returns the blocks that have rows of a range between two offsets.
func (x *index) find(ctx context.Context, l *Log, begin, end int64, r Range) ([]block, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.extend(ctx, l, end); err != nil {
		return nil, err
	}
	var found []block
	for i := range x.blocks {
		if b := x.blocks[i]; b.end > begin && b.start < end && r.has(&b) {
			b.start, b.end = max(b.start, begin), min(b.end, end)
			found = append(found, b)
		}
	}
	return found, nil
}

// extend reads on to end, and forgets what was dropped.
func (x *index) extend(ctx context.Context, l *Log, end int64) error {
	base, _ := l.Span()
	gone := 0
	for gone < len(x.blocks) && x.blocks[gone].end <= base {
		x.bad -= len(x.blocks[gone].bad)
		gone++
	}
	x.blocks = slices.Delete(x.blocks, 0, gone)
	if len(x.blocks) > 0 {
		base = x.blocks[len(x.blocks)-1].end
	}
	if base >= end {
		return nil
	}
	if last := len(x.blocks) - 1; last >= 0 && x.blocks[last].end-x.blocks[last].start < blockSize/2 {
		base, _ = l.Span() // it grows, unless its beginning is gone
		base = max(base, x.blocks[last].start)
		x.bad -= len(x.blocks[last].bad)
		x.blocks = x.blocks[:last]
	}
	p := make([]byte, blockSize)
	for base < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := l.lines(&p, base, end)
		if err != nil {
			return err
		}
		b := l.block(text, base)
		x.blocks = append(x.blocks, b)
		x.bad += len(b.bad)
		base = b.end
	}
	return nil
}

// lines reads whole lines from start on, as many as p has room for, which grows
// for a long one.
func (l *Log) lines(p *[]byte, start, end int64) ([]byte, error) {
	for {
		n, err := l.stored((*p)[:min(int64(len(*p)), end-start)], start)
		if err != nil {
			return nil, gone(err)
		}
		if last := bytes.LastIndexByte((*p)[:n], '\n'); last >= 0 {
			return (*p)[:last+1], nil
		}
		if len(*p) >= maxBlock || int64(n) == end-start {
			return nil, fmt.Errorf("%w: table %s has a line without an end", ErrCorrupt, l.name)
		}
		*p = make([]byte, 2*len(*p))
	}
}

// gone returns err, or what a reader is told whose lines were dropped.
func gone(err error) error {
	var lost *dropped
	if errors.As(err, &lost) {
		return fmt.Errorf("%w: %w meanwhile, as the file is full: ask again", fs.ErrBusy, lost)
	}
	return err
}

// block returns what is known of lines at an offset.
func (l *Log) block(text []byte, start int64) block {
	b := block{start: start, end: start + int64(len(text)), minID: All.MaxID}
	r := Record{table: l.table}
	at := start
	for line := range bytes.Lines(text) {
		r.begin(line[:len(line)-1])
		id, when, err := r.head()
		if err == nil {
			err = cmp.Or(r.check(), checkTime(when))
		}
		if err != nil {
			b.bad = append(b.bad, at)
		} else {
			b.minID, b.maxID = min(b.minID, id), max(b.maxID, id)
			if b.minTime == "" || string(when) < b.minTime {
				b.minTime = string(when)
			}
			if string(when) > b.maxTime {
				b.maxTime = string(when)
			}
		}
		at += int64(len(line))
	}
	return b
}

// checkTime says whether a time is as appendTime writes it.
func checkTime(when []byte) error {
	for i, c := range []byte(fs.TimeFormat) {
		if digit := '0' <= c && c <= '9'; digit && (when[i] < '0' || when[i] > '9') || !digit && when[i] != c {
			return errRecord
		}
	}
	return nil
}

// head returns the record's number and time.
func (r *Record) head() (id uint64, when []byte, err error) {
	v := r.Value(0)
	if len(v) == 0 || len(v) > 19 {
		return 0, nil, errRecord
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, nil, errRecord
		}
		id = 10*id + uint64(c-'0')
	}
	when = r.Value(1)
	if len(when) != len(fs.TimeFormat)+2 || when[0] != '"' || bytes.IndexByte(when, '\\') >= 0 {
		return 0, nil, errRecord
	}
	return id, when[1 : len(when)-1], nil
}
