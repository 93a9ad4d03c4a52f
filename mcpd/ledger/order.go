package ledger

import (
	"bytes"
	"cmp"
	"container/heap"
	"slices"
)

// An Order is one in which rows come.
type Order byte

// The orders. The zero value is that of the lines.
const (
	ByLine Order = iota
	ByID
	ByIDDown
	ByTime // and by number, where times are the same
	ByTimeDown
)

func (o Order) down() bool { return o == ByIDDown || o == ByTimeDown }

// A place is where a row is, with what it is ordered by.
type place struct {
	key, id uint64
	offset  int64
	size    int
	block   int
}

// place returns that of a row.
func (o Order) place(id uint64, when []byte) place {
	p := place{key: id, id: id}
	if o == ByTime || o == ByTimeDown {
		p.key = stamp(when)
	}
	return p
}

// compare orders two places.
func (o Order) compare(a, b place) int {
	n := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	if o.down() {
		return -n
	}
	return n
}

// stamp returns a number that ascends with the time: digits, but for what parts them.
func stamp(when []byte) (n uint64) {
	for i, radix := range [...]uint64{10, 10, 10, 10, 0, 2, 10, 0, 4, 10, 0, 3, 10, 0, 6, 10, 0, 6, 10, 0, 10, 10, 10, 10, 10, 10, 0} {
		if radix > 0 {
			n = n*radix + uint64(when[i]-'0')
		}
	}
	return n
}

// A sorted is the rows of blocks in an order. A block is looked at when its first
// row may be the next, so that in what nearly has the order few are at a time;
// of the others only where each row is stays in memory, and the block is read
// again for it.
type sorted struct {
	order Order
	rows  *Rows
	spans []block   // by the first row that each may have
	next  int       // that was not looked at
	runs  [][]place // of blocks that were: what is left, in order
}

func (s *sorted) Len() int           { return len(s.runs) }
func (s *sorted) Less(i, j int) bool { return s.order.compare(s.runs[i][0], s.runs[j][0]) < 0 }
func (s *sorted) Swap(i, j int)      { s.runs[i], s.runs[j] = s.runs[j], s.runs[i] }
func (s *sorted) Push(x any)         { s.runs = append(s.runs, x.([]place)) }

func (s *sorted) Pop() any {
	last := s.runs[len(s.runs)-1]
	s.runs = s.runs[:len(s.runs)-1]
	return last
}

// sort has the rows come in an order.
func (r *Rows) sort(o Order) {
	s := &sorted{order: o, rows: r, spans: slices.DeleteFunc(r.blocks, func(b block) bool { return b.maxTime == "" })}
	slices.SortStableFunc(s.spans, func(a, b block) int { return o.compare(o.first(&a), o.first(&b)) })
	r.blocks, r.sorted = nil, s
}

// first is a place that no row of a block comes before.
func (o Order) first(b *block) place {
	id, when := b.minID, b.minTime
	if o.down() {
		id, when = b.maxID, b.maxTime
	}
	return o.place(id, []byte(when))
}

// step has the next row be at hand.
func (s *sorted) step() (bool, error) {
	for s.next < len(s.spans) && (len(s.runs) == 0 || s.order.compare(s.order.first(&s.spans[s.next]), s.runs[0][0]) <= 0) {
		if err := s.look(); err != nil {
			return false, err
		}
	}
	if len(s.runs) == 0 {
		return false, nil
	}
	p := s.runs[0][0]
	if s.runs[0] = s.runs[0][1:]; len(s.runs[0]) == 0 {
		heap.Pop(s)
	} else {
		heap.Fix(s, 0)
	}
	r := s.rows
	if r.start != s.spans[p.block].start || r.text == nil {
		if err := r.load(s.spans[p.block]); err != nil {
			return false, err
		}
	}
	at := int(p.offset - r.start)
	return true, r.set(r.text[at : at+p.size])
}

// look notes where the rows of the next block are.
func (s *sorted) look() error {
	r := s.rows
	if err := r.load(s.spans[s.next]); err != nil {
		return err
	}
	var run []place
	for {
		line := r.line()
		if line == nil {
			break
		}
		if r.set(line) != nil || !r.within.holds(r.ID, r.Time) {
			continue
		}
		p := s.order.place(r.ID, r.Time)
		p.offset, p.size, p.block = r.Offset, len(line), s.next
		run = append(run, p)
	}
	s.next++
	if len(run) > 0 {
		slices.SortFunc(run, s.order.compare)
		heap.Push(s, run)
	}
	return nil
}

// line returns the next line of the block at hand, without its end, nil if there
// is none.
func (r *Rows) line() []byte {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		size := bytes.IndexByte(rest, '\n')
		r.Offset = r.start + int64(r.at)
		r.at += size + 1
		if isBeginning(rest) {
			continue
		}
		if r.bad == nil || !slices.Contains(r.bad, r.Offset) {
			return rest[:size]
		}
	}
	return nil
}
