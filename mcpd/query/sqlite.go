package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"hutch/fs"
)

// lengths are the limits of what SQLite takes. It looks at its time only between
// the steps of its program, so that no step may take long.
var lengths = map[sqlite3.LimitCategory]int{
	sqlite3.LIMIT_LENGTH:              MaxValue,
	sqlite3.LIMIT_SQL_LENGTH:          MaxSQL,
	sqlite3.LIMIT_COLUMN:              200,
	sqlite3.LIMIT_EXPR_DEPTH:          200,
	sqlite3.LIMIT_PARSER_DEPTH:        500,
	sqlite3.LIMIT_COMPOUND_SELECT:     50,
	sqlite3.LIMIT_VDBE_OP:             100_000,
	sqlite3.LIMIT_FUNCTION_ARG:        50,
	sqlite3.LIMIT_ATTACHED:            0,
	sqlite3.LIMIT_LIKE_PATTERN_LENGTH: 50,
	sqlite3.LIMIT_VARIABLE_NUMBER:     1,
	sqlite3.LIMIT_TRIGGER_DEPTH:       1,
	sqlite3.LIMIT_WORKER_THREADS:      0,
}

// forbidden are functions that do more than compute, or compute for too long.
var forbidden = []string{"load_extension", "fts3_tokenizer", "sqlite_log", "json_patch", "jsonb_patch", "unhex"}

// prepare opens the statement's database, takes from it what a reader does not
// need, and compiles the statement there.
func (s *Statement) prepare(sql string) (err error) {
	defer recovered(&err)
	if len(sql) > MaxSQL {
		return fmt.Errorf("%w: sql: %d bytes: at most %d", fs.ErrInvalid, len(sql), MaxSQL)
	}
	if strings.IndexByte(sql, 0) >= 0 {
		return fmt.Errorf("%w: sql: statement has a NUL byte", fs.ErrInvalid)
	}
	if s.conn, err = sqlite3.OpenContext(sqlite3.WithMaxMemory(context.Background(), MaxMemory), ":memory:"); err != nil {
		return err
	}
	s.conn.SetInterrupt(s.ctx)
	if err := s.confine(); err != nil {
		return err
	}
	stmt, tail, err := s.conn.Prepare(sql)
	if err != nil {
		return s.told(err)
	}
	s.stmt = stmt
	if stmt == nil {
		return fmt.Errorf("%w: sql: statement is empty", fs.ErrInvalid)
	}
	next, _, err := s.conn.Prepare(tail)
	if next != nil {
		next.Close()
	}
	if next != nil || err != nil {
		return fmt.Errorf("%w: sql: one statement at a time", fs.ErrInvalid)
	}
	if !stmt.ReadOnly() || stmt.ColumnCount() == 0 {
		return fmt.Errorf("%w: sql: it may only SELECT", fs.ErrPermission)
	}
	return nil
}

// confine leaves the database tables to read, and a little to do it with.
func (s *Statement) confine() error {
	err := s.conn.Exec("PRAGMA temp_store = MEMORY") // no sort ever reaches a disk
	for _, off := range []sqlite3.DBConfig{sqlite3.DBCONFIG_ENABLE_LOAD_EXTENSION, sqlite3.DBCONFIG_ENABLE_TRIGGER,
		sqlite3.DBCONFIG_TRUSTED_SCHEMA, sqlite3.DBCONFIG_DQS_DML, sqlite3.DBCONFIG_DQS_DDL} {
		_, cerr := s.conn.Config(off, false)
		err = errors.Join(err, cerr)
	}
	_, cerr := s.conn.Config(sqlite3.DBCONFIG_DEFENSIVE, true)
	err = errors.Join(err, cerr, s.register(), registerOwn(s.conn))
	for what, n := range lengths {
		s.conn.Limit(what, n)
	}
	return errors.Join(err, s.conn.SetAuthorizer(s.authorize))
}

// authorize lets a statement select, read and compute. To compile one can take long,
// and this is where that is met.
func (s *Statement) authorize(action sqlite3.AuthorizerActionCode, _, function, _, _ string) sqlite3.AuthorizerReturnCode {
	if s.ctx.Err() != nil {
		return sqlite3.AUTH_DENY
	}
	switch action {
	case sqlite3.AUTH_SELECT, sqlite3.AUTH_READ, sqlite3.AUTH_RECURSIVE:
		return sqlite3.AUTH_OK
	case sqlite3.AUTH_FUNCTION:
		for _, name := range forbidden {
			if strings.EqualFold(name, function) {
				s.refused = name
				return sqlite3.AUTH_DENY
			}
		}
		return sqlite3.AUTH_OK
	}
	if s.refused == "" {
		s.refused = "anything but SELECT"
	}
	return sqlite3.AUTH_DENY
}

// told returns an error of SQLite's as ours.
func (s *Statement) told(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimPrefix(err.Error(), "sqlite3: ")
	text = strings.TrimPrefix(text, "SQL logic error: ")
	switch {
	case s.fault != nil:
		return s.fault
	case s.ended(err):
		return context.Cause(s.ctx)
	case s.refused != "":
		return fmt.Errorf("%w: sql: %s is not allowed: a statement may only read, and not for long", fs.ErrPermission, s.refused)
	case strings.HasSuffix(text, " may not be modified"):
		return fmt.Errorf("%w: sql: %s", fs.ErrPermission, text)
	case errors.Is(err, sqlite3.TOOBIG):
		return fmt.Errorf("%w: sql: a value of more than %d bytes, or too long a text or pattern", fs.ErrInvalid, MaxValue)
	}
	return fmt.Errorf("%w: sql: %s", fs.ErrInvalid, text)
}

// recovered takes a panic for an error: the binding has no other way to say that
// memory was not enough.
func recovered(err *error) {
	r := recover()
	if r == nil {
		return
	}
	text := fmt.Sprint(r)
	if strings.Contains(text, "out of memory") {
		*err = errMemory
		return
	}
	*err = fmt.Errorf("%w: sql: %s", fs.ErrIO, text)
}

// errMemory is also SQLite's own, for what is told within one of its calls.
var errMemory error = &memoryError{}

type memoryError struct{}

func (*memoryError) Error() string {
	return fmt.Sprintf("%s: sql: more than %d MiB of memory: sort or group less at once", fs.ErrNoSpace, MaxMemory>>20)
}
func (*memoryError) Unwrap() []error { return []error{fs.ErrNoSpace, sqlite3.NOMEM} }

// shut closes the database. After a panic each step may panic, too, for the same
// reason; then the next is taken all the same.
func (s *Statement) shut() {
	for _, step := range []func() error{s.stmt.Close, s.conn.Close, s.conn.Close} {
		func() {
			var err error
			defer recovered(&err)
			err = step()
		}()
	}
	s.stmt, s.conn = nil, nil
}
