package ledger

import (
	"encoding/binary"
	"errors"
	"time"

	bolt "go.etcd.io/bbolt"
)

// retryAfter is how long queued records wait after a commit that failed,
// unless something else is written before.
const retryAfter = time.Second

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
	began := time.Now()
	defer func() { db.opt.Committed(time.Since(began)) }()
	db.commits.Add(1)
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
	room, dropped, excess := db.room(ops), false, int64(0)
	update := func(tx *bolt.Tx) error {
		if excess = db.excess(tx, room); !dropped && excess > 0 {
			return errRoom
		}
		return db.apply(tx, ops, adds)
	}
	err := db.bolt.Update(update)
	if err == errRoom {
		if err = db.drop(max(room, excess)); err == nil {
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
		case row, told:
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
