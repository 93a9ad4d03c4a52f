package ledger

import (
	"context"
	"fmt"

	"hutch/fs"
)

// A batch that is this full is not added to until the committer took it.
const (
	batchOps   = 16 << 10
	batchBytes = 16 << 20
)

type opKind byte

const (
	row     opKind = iota // a line without its number
	begin                 // a call's line for the pending bucket, in place of the one there
	end                   // a call's line for its table, and off with the pending one
	told                  // a line of a table that is no row
	nothing               // the batch tells more of the call
)

type op struct {
	kind   opKind
	queued bool // nobody is told of a failure: try again
	table  int
	call   uint64
	line   []byte
}

// A batch is what one transaction writes.
type batch struct {
	ops   []op
	bytes int
	taken chan struct{} // closed when the committer has taken it
	done  chan struct{} // closed when it is durable or has failed
	err   error         // set before done is closed
}

func newBatch() *batch {
	return &batch{taken: make(chan struct{}), done: make(chan struct{})}
}

func (b *batch) full(bytes int) bool { return len(b.ops) >= batchOps || b.bytes >= bytes }

func (b *batch) add(o op) {
	b.ops = append(b.ops, o)
	b.bytes += len(o.line)
}

// drop takes back what was added.
func (b *batch) drop(i int) {
	b.bytes -= len(b.ops[i].line)
	b.ops[i] = op{kind: nothing}
}

// wait waits until the batch is durable.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	default:
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue adds o to the batch that is collecting, and the call p, if there
// is one, to the calls under way. It waits while the batch is full.
func (db *DB) enqueue(ctx context.Context, o op, p *pending, wake chan struct{}) (*batch, error) {
	for {
		db.mu.Lock()
		if err := db.refusal(o.queued); err != nil {
			db.mu.Unlock()
			return nil, err
		}
		b := db.batch
		if !b.full(db.batchLimit()) {
			if p != nil {
				if err := db.admit(p, len(o.line)); err != nil {
					db.mu.Unlock()
					return nil, err
				}
				db.pending[o.call] = p
				p.batch, p.index = b, len(b.ops)
			}
			b.add(o)
			db.mu.Unlock()
			signal(wake)
			return b, nil
		}
		db.mu.Unlock()
		select {
		case <-b.taken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// goOn adds what is new of the call p, however full the batch is. What the same
// batch has of the call is not written.
func (db *DB) goOn(p *pending, o op, wake chan struct{}) (*batch, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.refusal(false); err != nil {
		return nil, err
	}
	b := db.batch
	if p.batch == b {
		b.drop(p.index)
	}
	p.batch, p.index = b, len(b.ops)
	b.add(o)
	if o.kind == begin {
		db.held += int64(len(o.line) - p.size)
		p.size = len(o.line)
	}
	signal(wake)
	return b, nil
}

// refusal returns why nothing can be written now. Its caller holds db.mu.
func (db *DB) refusal(queued bool) error {
	switch {
	case db.closed:
		return errClosed
	case queued && db.overflow != nil:
		return db.overflow
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take returns the batch to be written now, what failed before in front.
func (db *DB) take() (b *batch, closed bool) {
	db.mu.Lock()
	b, closed = db.batch, db.closed
	db.batch = newBatch()
	db.mu.Unlock()
	close(b.taken)
	if len(db.retained) > 0 {
		b.ops = append(db.retained, b.ops...)
		db.retained = nil
	}
	return b, closed
}

// Append writes a row to a table and returns when it is durable. If it
// fails there is no row.
func (db *DB) Append(ctx context.Context, name string, r Row) error {
	o, err := db.rowOp(name, r)
	if err != nil {
		return err
	}
	b, err := db.enqueue(ctx, o, nil, db.wake)
	if err != nil {
		return err
	}
	return b.wait(ctx)
}

// Queue hands a row to the committer and does not wait for it. It blocks
// only while more is queued than fits one transaction.
func (db *DB) Queue(ctx context.Context, name string, r Row) error {
	o, err := db.rowOp(name, r)
	if err != nil {
		return err
	}
	o.queued = true
	_, err = db.enqueue(ctx, o, nil, db.wake)
	return err
}

func (db *DB) rowOp(name string, r Row) (op, error) {
	i := tableIndex(name)
	if i < 0 || i == calls {
		return op{}, fmt.Errorf("%w: no table %q to append to", fs.ErrInvalid, name)
	}
	line, err := tables[i].encode(db.red, r)
	if err == nil {
		db.opt.Wrote(name, r)
	}
	return op{kind: row, table: i, line: line}, err
}

// Flush returns when everything that was written or queued before is
// durable, or why it is not.
func (db *DB) Flush(ctx context.Context) error {
	db.mu.Lock()
	b, closed := db.batch, db.closed
	db.mu.Unlock()
	if closed {
		return errClosed
	}
	signal(db.wake)
	return b.wait(ctx)
}

// Settle is Flush for who reads what there is: where there is no room to write
// more, what was written can be read all the same.
func (db *DB) Settle(ctx context.Context) error {
	if err := db.Flush(ctx); !fs.Is(err, fs.ErrNoSpace) {
		return err
	}
	return nil
}
