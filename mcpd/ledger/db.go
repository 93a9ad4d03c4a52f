package ledger

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/mcpd/redact"

	bolt "go.etcd.io/bbolt"
)

// Options are the settings of a database; the zero value is good.
type Options struct {
	Limit int64            // see SetLimit
	Red   *redact.Redactor // of its texts; nil: one of its own
	Told  func(string)     // is told of records that were dropped; must not block, and may be nil

	// Wrote is told of rows of all tables but mcp_calls as they are handed in, and
	// Committed how long each commit took. They must not block, and may be nil.
	Wrote     func(table string, r Row)
	Committed func(time.Duration)
}

const (
	lockTimeout = time.Second // for another process to let go of the file
	tailKept    = 256 << 10   // bytes at the end of each table that stay in memory
)

// mapped is how much address space a new file gets. Below that the file
// grows without waiting for readers.
const mapped = 64 << 20

// growth is by how much the file grows at a time.
const growth = 1 << 20

// A DB is an open session database. Its methods may be called concurrently.
type DB struct {
	path string
	file *os.File // bolt's own
	bolt *bolt.DB
	red  *redact.Redactor
	logs []*Log // one for each table
	opt  Options

	pageSize int64
	limit    atomic.Int64 // of the file's size

	nextCall atomic.Uint64 // the last number that was given to a call
	commits  atomic.Uint64 // that were begun
	wake     chan struct{} // there is something in the batch
	soon     chan struct{} // what there is in the batch can wait a little
	ran      chan struct{} // closed when the committer has ended
	over     chan struct{} // closed by Close: followers see the end

	// These belong to the committer, and to Open before it runs.
	retained []op     // queued, and not written when it was tried
	lastID   []uint64 // of the last row of each table
	broken   error    // the file is damaged: nothing more is written
	kept     int64    // where the room ends that is kept back
	asked    time.Time

	mu       sync.Mutex // guards what follows
	batch    *batch     // collecting
	pending  map[uint64]*pending
	held     int64 // bytes of the lines of pending
	overflow error // why Queue takes no more
	closed   bool
}

// fill has nobody be told where nobody is to be.
func (o *Options) fill() {
	if o.Told == nil {
		o.Told = func(string) {}
	}
	if o.Wrote == nil {
		o.Wrote = func(string, Row) {}
	}
	if o.Committed == nil {
		o.Committed = func(time.Duration) {}
	}
}

// Open opens the session database at path, or makes it. Calls that were
// under way when it was last open get their line. A file that another
// process has open gives fs.ErrBusy, a damaged one ErrCorrupt; then
// SetAside makes room for a new one.
func Open(path string, opt Options) (*DB, error) {
	db := &DB{
		path:    path,
		red:     cmp.Or(opt.Red, new(redact.Redactor)),
		wake:    make(chan struct{}, 1),
		soon:    make(chan struct{}, 1),
		ran:     make(chan struct{}),
		over:    make(chan struct{}),
		lastID:  make([]uint64, len(tables)),
		batch:   newBatch(),
		pending: make(map[uint64]*pending),
		opt:     opt,
	}
	db.opt.fill()
	db.SetLimit(opt.Limit)
	for i, t := range tables {
		db.logs = append(db.logs, &Log{db: db, name: []byte(t.name), table: &Tables[i], keep: tailKept, index: index{turn: make(chan struct{}, 1)}})
	}
	if err := db.open(); err != nil {
		return nil, err
	}
	var left []op
	err := guard(func() error {
		return db.bolt.View(func(tx *bolt.Tx) (err error) {
			left, err = db.load(tx)
			return err
		})
	})
	if err != nil {
		db.shut()
		return nil, storeError(err)
	}
	db.keepRoom()
	if len(left) > 0 {
		db.write(&batch{ops: left, done: make(chan struct{})})
	}
	if db.broken != nil {
		db.shut()
		return nil, db.broken
	}
	go db.run()
	return db, nil
}

// open opens the file. bbolt panics on some damage, and leaves the file open
// and locked when it does.
func (db *DB) open() error {
	_, err := os.Stat(db.path)
	made := errors.Is(err, os.ErrNotExist)
	err = guard(func() (err error) {
		db.bolt, err = bolt.Open(db.path, 0o600, &bolt.Options{
			Timeout:         lockTimeout,
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: mapped,
			OpenFile: func(name string, flag int, perm os.FileMode) (_ *os.File, err error) {
				db.file, err = os.OpenFile(name, flag, perm)
				return db.file, err
			},
		})
		return err
	})
	if err != nil {
		if db.file != nil {
			db.file.Close()
		}
		return openError(db.path, err)
	}
	db.bolt.AllocSize = growth
	db.pageSize = int64(db.bolt.Info().PageSize)
	if made {
		return fs.SyncFolder(filepath.Dir(db.path))
	}
	return nil
}

// load reads the ends of the tables, and the calls that never ended.
func (db *DB) load(tx *bolt.Tx) (left []op, err error) {
	if st, err := db.file.Stat(); err != nil {
		return nil, err
	} else if st.Size() < tx.Size() {
		return nil, fmt.Errorf("%w: %d bytes of %d are there", ErrCorrupt, st.Size(), tx.Size())
	}
	if err := db.check(tx); err != nil {
		return nil, err
	}
	for i, t := range tables {
		b := tx.Bucket([]byte(t.name))
		if b == nil {
			continue
		}
		db.lastID[i] = b.Sequence()
		if k, _ := b.Cursor().First(); len(k) == 8 {
			db.logs[i].base = int64(binary.BigEndian.Uint64(k))
		}
		if k, v := b.Cursor().Last(); len(k) == 8 {
			db.logs[i].size = int64(binary.BigEndian.Uint64(k)) + int64(len(v))
		}
	}
	b := tx.Bucket([]byte(pendingBucket))
	if b == nil {
		return nil, nil
	}
	db.nextCall.Store(b.Sequence())
	err = b.ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("%w: a pending call without a number", ErrCorrupt)
		}
		left = append(left, op{kind: end, queued: true, call: binary.BigEndian.Uint64(k), line: append([]byte(nil), v...)})
		return nil
	})
	return left, err
}

// AddSecrets makes the values known as secrets: from now on they are
// redacted wherever they occur. Values of less than six bytes are ignored.
func (db *DB) AddSecrets(values ...string) { db.red.Add(values...) }

// Redactor returns what redacts this database's texts.
func (db *DB) Redactor() *redact.Redactor { return db.red }

// Busy says whether calls are under way, which end in this database.
func (db *DB) Busy() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.pending) > 0
}

// Log returns the table called name as a growing text, or nil.
func (db *DB) Log(name string) *Log {
	if i := tableIndex(name); i >= 0 {
		return db.logs[i]
	}
	return nil
}

// Close writes what is queued and closes the file. Followers come to the
// end. Calls still under way are interrupted for the next Open to tell.
func (db *DB) Close() error {
	db.mu.Lock()
	again := db.closed
	db.closed = true
	db.mu.Unlock()
	if again {
		<-db.ran
		return nil
	}
	signal(db.wake)
	<-db.ran
	close(db.over)
	err := db.shut()
	if db.broken != nil {
		return db.broken
	}
	if n := len(db.retained); n > 0 {
		return storeError(fmt.Errorf("%d records were not written", n))
	}
	return err
}

// shut closes the file. After damage bbolt may hold its own locks for ever:
// then only the file is closed, which gives up the lock on it.
func (db *DB) shut() error {
	if db.broken != nil {
		return db.file.Close()
	}
	return db.bolt.Close()
}
