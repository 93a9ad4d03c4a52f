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
	turn chan struct{} // has a token while somebody reads on, who alone changes what follows

	mu     sync.Mutex // guards what follows
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
	if x.end() < end {
		if err := x.extend(ctx, l, end); err != nil {
			return nil, err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []block
	for i := range x.blocks {
		if b := x.blocks[i]; b.end > begin && b.start < end && r.has(&b) {
			b.start, b.end = max(b.start, begin), min(b.end, end)
			found = append(found, b)
		}
	}
	return found, nil
}

// end returns the offset up to which there are blocks.
func (x *index) end() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.blocks) == 0 {
		return 0
	}
	return x.blocks[len(x.blocks)-1].end
}

// unreadable returns how many lines were met that are no records.
func (x *index) unreadable() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bad
}

// extend reads on to end, and forgets what was dropped.
func (x *index) extend(ctx context.Context, l *Log, end int64) error {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-x.turn }()
	p := make([]byte, blockSize)
	for base := x.begin(l, end); base < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := l.lines(&p, base, end)
		if err != nil {
			return err
		}
		b := l.block(text, base)
		x.add(b)
		base = b.end
	}
	return nil
}

// begin forgets what was dropped, and returns where to read on up to end: the last
// block may grow.
func (x *index) begin(l *Log, end int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	base, _ := l.Span()
	gone := 0
	for gone < len(x.blocks) && x.blocks[gone].end <= base {
		x.bad -= len(x.blocks[gone].bad)
		gone++
	}
	x.blocks = slices.Delete(x.blocks, 0, gone)
	switch n := len(x.blocks) - 1; {
	case n < 0:
		return base
	case x.blocks[n].end >= end || x.blocks[n].end-x.blocks[n].start >= blockSize/2:
		return x.blocks[n].end
	default:
		return max(base, x.blocks[n].start)
	}
}

// add adds a block, which may be the last one grown.
func (x *index) add(b block) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.blocks) - 1; n >= 0 && x.blocks[n].end > b.start {
		x.bad -= len(x.blocks[n].bad)
		x.blocks = x.blocks[:n]
	}
	x.blocks = append(x.blocks, b)
	x.bad += len(b.bad)
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
		if isBeginning(line) {
			at += int64(len(line))
			continue
		}
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
