package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"hutch/fs"
)

// A batch that is this full is not added to until the committer took it.
const (
	batchOps   = 16 << 10
	batchBytes = 16 << 20
)

// retryAfter is how long queued records wait after a commit that failed,
// unless something else is written before.
const retryAfter = time.Second

type opKind byte

const (
	row     opKind = iota // a line without its number
	begin                 // a call's line for the pending bucket, in place of the one there
	end                   // a call's line for its table, and off with the pending one
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

// run is the committer. It ends when the database is closed and everything
// was written, or could not be.
func (db *DB) run() {
	defer close(db.ran)
	var retry <-chan time.Time
	for {
		select {
		case <-db.wake:
		case <-db.soon:
			db.awaitCompany()
		case <-retry:
		}
		b, closed := db.take()
		db.write(b)
		if closed {
			return
		}
		retry = nil
		if len(db.retained) > 0 {
			retry = time.After(retryAfter)
		}
	}
}

// companyDelay is how long what nobody waits for yet waits for company.
const companyDelay = 2 * time.Millisecond

// awaitCompany lets the end of a call wait for the next one, whose caller waits
// for a commit anyway, and the beginning of a call for its decision, which most
// have at once: a lone caller then costs one commit a call, and never waits for
// that of the call before.
func (db *DB) awaitCompany() {
	t := time.NewTimer(companyDelay)
	defer t.Stop()
	select {
	case <-db.wake:
	case <-t.C:
	}
}

// write commits a batch, lets readers see it and tells those who wait. What
// was only queued is kept for the next batch if it fails; when that has
// become too much, Queue is told.
func (db *DB) write(b *batch) {
	b.err = db.commit(b.ops)
	held := 0
	if b.err != nil && db.broken == nil {
		for _, o := range b.ops {
			if o.queued {
				db.retained = append(db.retained, o)
				held += len(o.line)
			}
		}
	}
	db.mu.Lock()
	db.overflow = db.broken
	if held > batchBytes {
		db.overflow = b.err
	}
	db.mu.Unlock()
	close(b.done)
}

// An addition is what a transaction adds to one table.
type addition struct {
	bucket *bolt.Bucket
	size   int64 // of the table with it
	id     uint64
	lines  [][]byte
}

func (db *DB) commit(ops []op) error {
	if len(ops) == 0 {
		return nil
	}
	if db.broken != nil {
		return db.broken
	}
	adds := make([]addition, len(tables))
	err := guard(func() error { return db.store(ops, adds) })
	if errors.Is(err, ErrCorrupt) {
		db.broken = err
	}
	if err != nil {
		return storeError(err)
	}
	db.extend(adds)
	db.keepRoom()
	return nil
}

// store writes ops, and drops records before where the file is full.
func (db *DB) store(ops []op, adds []addition) error {
	room, dropped := db.room(ops), false
	update := func(tx *bolt.Tx) error {
		if !dropped && db.short(tx, room) {
			return errRoom
		}
		return db.apply(tx, ops, adds)
	}
	err := db.bolt.Update(update)
	if err == errRoom {
		if err = db.drop(room); err == nil {
			dropped = true
			err = db.bolt.Update(update)
		}
	}
	return err
}

// extend lets readers see what was added.
func (db *DB) extend(adds []addition) {
	for i := range adds {
		if adds[i].bucket != nil {
			db.lastID[i] = adds[i].id
			db.logs[i].extend(adds[i].lines)
		}
	}
}

// apply does ops in tx and collects in adds what they add to each table.
func (db *DB) apply(tx *bolt.Tx, ops []op, adds []addition) error {
	var waiting *bolt.Bucket
	for i := range ops {
		o := &ops[i]
		if (o.kind == begin || o.kind == end) && waiting == nil {
			var err error
			if waiting, err = tx.CreateBucketIfNotExists([]byte(pendingBucket)); err != nil {
				return err
			}
		}
		var err error
		switch o.kind {
		case begin:
			err = waiting.Put(key(o.call), o.line)
		case end:
			err = errors.Join(db.append(tx, &adds[o.table], o), waiting.Delete(key(o.call)))
		case row:
			err = db.append(tx, &adds[o.table], o)
		}
		if err != nil {
			return err
		}
	}
	if waiting != nil {
		if err := waiting.SetSequence(db.nextCall.Load()); err != nil {
			return err
		}
	}
	return sequence(adds)
}

// sequence writes down the numbers of the last rows.
func sequence(adds []addition) error {
	for i := range adds {
		if b := adds[i].bucket; b != nil {
			if err := b.SetSequence(adds[i].id); err != nil {
				return err
			}
		}
	}
	return nil
}

// append puts o's line behind the last one of its table. The key of a line
// is its offset.
func (db *DB) append(tx *bolt.Tx, a *addition, o *op) error {
	if a.bucket == nil {
		b, err := tx.CreateBucketIfNotExists([]byte(tables[o.table].name))
		if err != nil {
			return err
		}
		b.FillPercent = 0.95
		*a = addition{bucket: b, size: db.logs[o.table].Size(), id: db.lastID[o.table]}
	}
	line := o.line
	if o.kind == row {
		a.id++
		line = append(appendHead(make([]byte, 0, len(line)+24), a.id), line...)
	}
	if err := a.bucket.Put(key(uint64(a.size)), line); err != nil {
		return err
	}
	a.size += int64(len(line))
	a.lines = append(a.lines, line)
	return nil
}

func key(n uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, n)
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
