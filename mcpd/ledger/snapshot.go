package ledger

import "context"

// A Snapshot is what the tables of a database held at one moment. It holds
// nothing of the file: rows are only ever added at a table's end, so an offset
// says what there was. Only a full file loses rows, the oldest, and a read of
// those fails.
type Snapshot struct {
	db      *DB
	spans   [][2]int64 // by table
	commits uint64     // when it was made, or Written was asked last
}

// Written says whether the database was written to since the snapshot was made,
// or since it was asked last.
func (s *Snapshot) Written() bool {
	n := s.db.commits.Load()
	written := n != s.commits
	s.commits = n
	return written
}

// Snapshot returns one of all that was written until now.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	if err := db.Settle(ctx); err != nil {
		return nil, err
	}
	s := &Snapshot{db: db, commits: db.commits.Load()}
	for _, l := range db.logs {
		begin, end := l.Span()
		s.spans = append(s.spans, [2]int64{begin, end})
	}
	return s, nil
}

// Unreadable returns how many lines were met that are no records: the file was
// damaged. They are passed over.
func (db *DB) Unreadable() (n int) {
	for _, l := range db.logs {
		n += l.index.unreadable()
	}
	return n
}

// Rows are rows of a table, one at a time. They are read a block at a time, each
// under a transaction of its own, so that who reads slowly holds up nothing.
type Rows struct {
	log    *Log
	within Range
	blocks []block // that are left
	sorted *sorted // nil: they come as their lines do
	buf    []byte
	text   []byte // of the block at hand
	at     int    // where its next line begins
	start  int64  // its offset
	bad    []int64

	Blocks int // that were read

	Record Record // the row at hand
	Offset int64  // of its line in the table: no other row's
	ID     uint64
	Time   []byte
}

// Rows returns the rows of a table, by its place in Tables, that are in a range.
// Before the first call of Next there is none at hand.
func (s *Snapshot) Rows(ctx context.Context, table int, within Range, order Order) (*Rows, error) {
	l, span := s.db.logs[table], s.spans[table]
	blocks, err := l.index.find(ctx, l, span[0], span[1], within)
	if err != nil {
		return nil, err
	}
	r := &Rows{log: l, within: within, blocks: blocks, Record: Record{table: l.table}}
	if order != ByLine {
		r.sort(order)
	}
	return r, nil
}

// Next has the next row be at hand, and says whether there is one.
func (r *Rows) Next() (bool, error) {
	if r.sorted != nil {
		return r.sorted.step()
	}
	for {
		line := r.line()
		switch {
		case line != nil:
			if r.set(line) == nil && r.within.holds(r.ID, r.Time) {
				return true, nil
			}
		case len(r.blocks) == 0:
			return false, nil
		default:
			if err := r.load(r.blocks[0]); err != nil {
				return false, err
			}
			r.blocks = r.blocks[1:]
		}
	}
}

// set has a line be the row at hand.
func (r *Rows) set(line []byte) (err error) {
	r.Record.begin(line)
	r.ID, r.Time, err = r.Record.head()
	return err
}

// load reads a block.
func (r *Rows) load(b block) error {
	size := int(b.end - b.start)
	if len(r.buf) < size {
		r.buf = make([]byte, max(size, blockSize))
	}
	r.Blocks++
	if _, err := r.log.stored(r.buf[:size], b.start); err != nil {
		return gone(err)
	}
	r.text, r.at, r.start, r.bad = r.buf[:size], 0, b.start, b.bad
	if size == 0 || r.text[size-1] != '\n' {
		r.text = nil
		return ErrCorrupt
	}
	return nil
}
