// Package query answers SQL over ledgers: read-only, by SQLite, whose tables here
// are the ledgers' own, read where they are.
//
// A statement has a database of its own, in memory and empty, which ends with it.
// It may select and nothing else. What it can exhaust has a limit: time, memory,
// the length of values, rows, bytes, and how many statements there are at once.
// Nothing of a ledger's file is held between two blocks of 64 KiB.
package query

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

// The limits of a statement.
const (
	MaxSQL    = 64 << 10        // bytes of its text
	MaxWork   = 5 * time.Second // that it may take, without what it waits for its reader
	MaxIdle   = time.Minute     // that it waits for its reader
	MaxRows   = 1_000_000       // of its answer
	MaxBytes  = 256 << 20       // of its answer
	MaxValue  = 128 << 10       // bytes of one value: some functions take its square
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
	Ledger func() (*ledger.DB, error)
}

// Sources are the ledgers that a statement is about.
type Sources struct {
	Key  string // of those that are the same to Engine
	All  bool   // of any number: each table has the column vm first
	List func() []Source
}

// An Engine runs statements.
type Engine struct {
	mu    sync.Mutex     // guards what follows
	under map[string]int // statements under way, by key
	all   int

	idle time.Duration // in the place of MaxIdle, for tests; 0: none
}

// enter counts a statement in.
func (e *Engine) enter(key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.under[key] >= MaxOfOne:
		return fmt.Errorf("%w: sql: %d statements run here: wait until one has ended", fs.ErrBusy, MaxOfOne)
	case e.all >= MaxOfAll:
		return fmt.Errorf("%w: sql: %d statements run in all: wait until one has ended", fs.ErrBusy, MaxOfAll)
	}
	if e.under == nil {
		e.under = map[string]int{}
	}
	e.under[key]++
	e.all++
	return nil
}

// leave counts one out.
func (e *Engine) leave(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.under[key]--; e.under[key] == 0 {
		delete(e.under, key)
	}
	e.all--
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
