package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// A Statement is a statement under way. It goes on by itself, as far ahead of
// its reader as one chunk.
type Statement struct {
	e      *Engine
	from   Sources
	ctx    context.Context // ends it, for a reason
	cancel context.CancelCauseFunc

	conn      *sqlite3.Conn
	stmt      *sqlite3.Stmt
	sources   []Source
	snapshots []*ledger.Snapshot // as the tables were when the ledger was read first
	held      []func()           // that release ledgers
	refused   string             // what it may not do
	fault     error              // why a table could not be read

	names   [][]byte // of the columns, as members of a line
	rows    int
	bytes   int
	left    time.Duration // that it may work
	began   time.Time     // when it went on
	limit   *time.Timer   // ends it when nothing is left
	gaveWay time.Time     // when it gave way last, or need not
	chunks  chan []byte
	done    chan struct{} // closed when it has ended and all it had is free
	err     error         // why it ended early; set before chunks is closed

	rest []byte // the reader's

	unread time.Time // since when it waits for its reader, zero if it does not; of Engine.mu
}

// chunkSize is how many bytes of lines a chunk has, or a row more.
const chunkSize = 64 << 10

// Why a statement is ended.
var (
	errWork  = fmt.Errorf("%w: sql: more than %s of work", fs.ErrTimedOut, MaxWork)
	errIdle  = fmt.Errorf("%w: sql: the answer was not read for %s", fs.ErrTimedOut, MaxIdle)
	errGone  = fmt.Errorf("%w: sql: the answer was not read, and another statement wanted its place", fs.ErrTimedOut)
	errEnded = fmt.Errorf("%w: sql: statement was ended", fs.ErrInterrupted)
)

// Start compiles a statement and begins it. It has to be closed. For one that gives
// its place to this one it waits as long as ctx allows.
func (e *Engine) Start(ctx context.Context, from Sources, sql string) (_ *Statement, err error) {
	s := &Statement{e: e, from: from, left: MaxWork, chunks: make(chan []byte), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := e.enter(ctx, s); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.cancel(errEnded)
			s.free()
			close(s.done)
		}
	}()
	if err := s.compile(ctx, sql); err != nil {
		return nil, err
	}
	s.sources = from.List()
	s.snapshots = make([]*ledger.Snapshot, len(s.sources))
	go s.run()
	return s, nil
}

// compile prepares the statement, which is work of it, and as long as ctx allows.
func (s *Statement) compile(ctx context.Context, sql string) error {
	defer context.AfterFunc(ctx, func() { s.cancel(errEnded) })()
	s.work()
	defer s.pause()
	return s.prepare(sql)
}

// free gives back what the statement has.
func (s *Statement) free() {
	s.shut()
	for _, release := range s.held {
		release()
	}
	s.e.leave(s)
}

// snapshot returns that of a ledger: one for all tables and all the time.
func (s *Statement) snapshot(source int) (*ledger.Snapshot, error) {
	if s.snapshots[source] != nil {
		return s.snapshots[source], nil
	}
	db, release, err := s.sources[source].Ledger()
	if err != nil {
		return nil, err
	}
	s.held = append(s.held, release)
	s.snapshots[source], err = db.Snapshot(s.ctx)
	return s.snapshots[source], err
}

// failed keeps the error of a table: SQLite keeps only texts.
func (s *Statement) failed(err error) error {
	if err != nil && s.fault == nil {
		s.fault = err
	}
	return err
}

// run makes the answer.
func (s *Statement) run() {
	defer close(s.done)
	defer s.free()
	s.err = s.answer()
	close(s.chunks)
}

// work has the time count that the statement takes, and pause not.
func (s *Statement) work() {
	s.began = time.Now()
	s.limit = time.AfterFunc(max(s.left, 0), func() { s.cancel(errWork) })
}

func (s *Statement) pause() {
	s.limit.Stop()
	s.left -= time.Since(s.began)
}

func (s *Statement) answer() (err error) {
	defer recovered(&err)
	s.work()
	s.gaveWay = s.began
	defer func() { s.limit.Stop() }()
	chunk := make([]byte, 0, chunkSize)
	for s.stmt.Step() {
		n := len(chunk)
		if chunk, err = s.appendRow(chunk); err != nil {
			return err
		}
		s.rows, s.bytes = s.rows+1, s.bytes+len(chunk)-n
		if err := s.enough(); err != nil {
			return err
		}
		if len(chunk) < chunkSize {
			continue
		}
		if err := s.give(chunk); err != nil {
			return err
		}
		chunk = make([]byte, 0, chunkSize)
	}
	err = s.told(s.stmt.Err())
	if len(chunk) > 0 {
		if gerr := s.give(chunk); gerr != nil {
			return gerr
		}
	}
	return err
}

// share is how many times as long as it works a statement waits while the ledger
// that it reads is written to, and slice how long it works before it looks again.
const (
	share = 9
	slice = time.Millisecond
)

// giveWay lets those go first who append: they wait for a disk, and would then
// wait for a processor, too. It is called for each block of lines.
func (s *Statement) giveWay(source int) {
	worked := time.Since(s.gaveWay)
	if worked < slice {
		return
	}
	s.gaveWay = s.gaveWay.Add(worked)
	if !s.snapshots[source].Written() {
		return
	}
	s.pause()
	wait := time.NewTimer(share * worked)
	select {
	case <-wait.C:
	case <-s.ctx.Done():
		wait.Stop()
	}
	s.work()
	s.gaveWay = s.began
}

// enough says why there are no more rows.
func (s *Statement) enough() error {
	switch {
	case s.rows > MaxRows:
		return fmt.Errorf("%w: sql: more than %d rows: say LIMIT", fs.ErrInvalid, MaxRows)
	case s.bytes > MaxBytes:
		return fmt.Errorf("%w: sql: more than %d MiB of rows: say LIMIT, or name the columns", fs.ErrInvalid, MaxBytes>>20)
	}
	return nil
}

// give hands the reader a chunk, and waits until it takes it.
func (s *Statement) give(chunk []byte) error {
	s.pause()
	s.e.waits(s, time.Now())
	defer func() {
		s.e.waits(s, time.Time{})
		s.work()
		s.gaveWay = s.began
	}()
	idle := time.NewTimer(cmp.Or(s.e.idle, MaxIdle))
	defer idle.Stop()
	select {
	case s.chunks <- chunk:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-idle.C:
		return errIdle
	}
}

// appendRow appends the row at hand as a line of JSON.
func (s *Statement) appendRow(b []byte) ([]byte, error) {
	if s.names == nil {
		s.names = columnNames(s.stmt)
	}
	start := len(b)
	for i, name := range s.names {
		b = appendValue(append(b, name...), s.stmt, i)
		if len(b)-start > maxRow {
			return b, fmt.Errorf("%w: sql: a row of more than %d MiB", fs.ErrInvalid, maxRow>>20)
		}
	}
	return append(b, '}', '\n'), nil
}

// columnNames returns what stands before each value of a line. A name that is
// there already gets a number, as SQLite does it with columns of subqueries.
func columnNames(stmt *sqlite3.Stmt) [][]byte {
	var names [][]byte
	seen := map[string]bool{}
	for i := range stmt.ColumnCount() {
		name := stmt.ColumnName(i)
		for n, own := 1, name; seen[name]; n++ {
			name = fmt.Sprintf("%s:%d", own, n)
		}
		seen[name] = true
		begin := byte(',')
		if i == 0 {
			begin = '{'
		}
		names = append(names, append(appendText([]byte{begin}, name), ':'))
	}
	return names
}

// Read fills p with what comes next of the answer, lines of JSON. It gives less
// than that at the end only. One that gives up waiting takes nothing. One reads
// at a time.
func (s *Statement) Read(ctx context.Context, p []byte) (n int, err error) {
	for len(s.rest) < len(p) {
		select {
		case chunk, more := <-s.chunks:
			if !more {
				if n = copy(p, s.rest); n == 0 {
					return 0, s.err
				}
				s.rest = s.rest[n:]
				return n, nil
			}
			s.rest = append(s.rest, chunk...)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	n = copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the statement, and returns when nothing of it is left.
func (s *Statement) Close() error {
	s.cancel(errEnded)
	<-s.done
	return nil
}

// ended says whether an error is that the statement was ended.
func (s *Statement) ended(err error) bool {
	return errors.Is(err, sqlite3.INTERRUPT) || s.ctx.Err() != nil
}
