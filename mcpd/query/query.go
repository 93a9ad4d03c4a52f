// Package query answers SQL over ledgers: read-only, by SQLite, whose tables here
// are the ledgers' own, read where they are.
//
// A statement has a database of its own, in memory and empty, which ends with it.
// It may select and nothing else. What it can exhaust has a limit: time, memory,
// the length of values, rows, bytes, and how many statements there are at once.
// Nothing of a ledger's file is held between two blocks of 64 KiB.
package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/query/sqltext"
)

// The limits of a statement.
const (
	MaxSQL    = sqltext.Max     // bytes of its text
	MaxWork   = 5 * time.Second // by the clock, without what it waits for its reader and for those who write
	MaxIdle   = time.Minute     // that it waits for its reader
	MaxRows   = 1_000_000       // of its answer
	MaxBytes  = 256 << 20       // of its answer
	MaxValue  = 64 << 10        // bytes of one value, or of a row that is sorted
	MaxMemory = 64 << 20        // bytes that SQLite may take for it

	maxRow = 16 << 20 // bytes of a row of the answer
)

// How many statements may be under way.
const (
	MaxOfOne = 4 // over one ledger, and over all of them together
	MaxOfAll = 8
)

// A Source is a ledger that is asked.
type Source struct {
	VM     string
	Ledger func() (db *ledger.DB, release func(), err error)
}

// Sources are the ledgers that a statement is about.
type Sources struct {
	Key  string // of those that are the same to Engine
	All  bool   // of any number: each table has the column vm first
	List func() []Source
}

// An Engine runs statements.
type Engine struct {
	mu      sync.Mutex   // guards what follows
	running []*Statement // that are under way, the oldest first

	idle time.Duration // in the place of MaxIdle, for tests; 0: none
}

// grace is how long a statement keeps its place that another wants while its
// answer is not read.
const grace = time.Second

// enter counts a statement in. If there are as many as there may be, one whose
// reader hangs has to go.
func (e *Engine) enter(ctx context.Context, s *Statement) error {
	for {
		e.mu.Lock()
		rivals, err := e.rivals(s.from.Key)
		if err == nil {
			e.running = append(e.running, s)
			e.mu.Unlock()
			return nil
		}
		i := slices.IndexFunc(rivals, func(r *Statement) bool { return !r.unread.IsZero() && time.Since(r.unread) > grace })
		e.mu.Unlock()
		if i < 0 {
			return err
		}
		rivals[i].cancel(errGone)
		select {
		case <-rivals[i].done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// rivals returns the statements of which one has to end before another of key can
// begin, if there is no room for it.
func (e *Engine) rivals(key string) ([]*Statement, error) {
	var own []*Statement
	for _, s := range e.running {
		if s.from.Key == key {
			own = append(own, s)
		}
	}
	if len(own) >= MaxOfOne {
		return own, fmt.Errorf("%w: sql: %d statements run here: wait until one has ended", fs.ErrBusy, MaxOfOne)
	}
	if len(e.running) >= MaxOfAll {
		return slices.Clone(e.running), fmt.Errorf("%w: sql: %d statements run in all: wait until one has ended", fs.ErrBusy, MaxOfAll)
	}
	return nil, nil
}

// leave counts one out.
func (e *Engine) leave(s *Statement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = slices.DeleteFunc(e.running, func(o *Statement) bool { return o == s })
}

// waits notes since when a statement waits for its reader; zero: it works.
func (e *Engine) waits(s *Statement, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.unread = since
}

// Schema returns the tables as statements of SQL.
func Schema(all bool) string {
	var b strings.Builder
	for i := range ledger.Tables {
		b.WriteString(declaration(&ledger.Tables[i], all, "\n\t", ",\n\t", "\n") + ";\n")
	}
	return b.String()
}

// declaration returns the statement that declares a table, with what stands before,
// between and behind its columns.
func declaration(t *ledger.Table, all bool, before, between, behind string) string {
	var columns []string
	if all {
		columns = append(columns, "vm TEXT")
	}
	for _, c := range t.Columns {
		columns = append(columns, c.Name+" "+c.Type)
	}
	return "CREATE TABLE " + t.Name + " (" + before + strings.Join(columns, between) + behind + ")"
}
