package query

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

const endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) "

func start(t *testing.T, e *Engine, from Sources, sql string) *Statement {
	t.Helper()
	s, err := e.Start(t.Context(), from, sql)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A statement ends with its reader, whatever it is at, and leaves nothing: what has
// no end ends because of that.
func TestClosed(t *testing.T) {
	e, from := new(Engine), one(newLedger(t))
	for _, what := range []string{"x", "count(*)", "sum(length(randomblob(10000)))", "x FROM n UNION SELECT x"} {
		for _, read := range []bool{false, true} {
			s := start(t, e, from, endless+"SELECT "+what+" FROM n")
			if read {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				s.Read(ctx, make([]byte, 10))
				cancel()
			}
			s.Close()
			if !errors.Is(s.err, errEnded) || len(e.running) != 0 {
				t.Errorf("%s: %v, %d are left", what, s.err, len(e.running))
			}
		}
	}
}

// What takes long to compile ends with who asks it.
func TestCompiling(t *testing.T) {
	sql := "WITH t0(x) AS (SELECT 1)"
	for i := range 15 {
		sql += fmt.Sprintf(", t%d AS (SELECT a.x FROM t%d a, t%d b)", i+1, i, i)
	}
	e := new(Engine)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Start(ctx, one(newLedger(t)), sql+" SELECT count(*) FROM t15"); !errors.Is(err, errEnded) || len(e.running) != 0 {
		t.Errorf("%v, %d are left", err, len(e.running))
	}
}

// A reader that gives up waiting takes nothing with it, and one that stops ends
// the statement in the end.
func TestReaderStops(t *testing.T) {
	e, from := &Engine{idle: 100 * time.Millisecond}, one(newLedger(t))
	s := start(t, e, from, endless+"SELECT x FROM n")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 3 {
		s.Read(gone, make([]byte, 1<<20))
	}
	p := make([]byte, 16)
	if n, err := s.Read(context.Background(), p); string(p[:n]) != "{\"x\":1}\n{\"x\":2}\n" || err != nil {
		t.Errorf("after a read that was given up: %q, %v", p[:n], err)
	}
	<-s.done // without Close
	if len(e.running) != 0 {
		t.Errorf("%d are left", len(e.running))
	}
	for {
		if n, err := s.Read(context.Background(), make([]byte, 4096)); n == 0 {
			if !fs.Is(err, fs.ErrTimedOut) || !strings.Contains(err.Error(), "not read") {
				t.Errorf("the end: %v", err)
			}
			break
		}
	}
	s.Close()
}

func TestTooMany(t *testing.T) {
	e, db := new(Engine), newLedger(t)
	var all []*Statement
	for i := range MaxOfAll {
		from := one(db)
		from.Key = fmt.Sprint(i / MaxOfOne)
		all = append(all, start(t, e, from, endless+"SELECT x FROM n"))
	}
	for key, want := range map[string]string{"0": "4 statements run here", "new": "8 statements run in all"} {
		from := one(db)
		from.Key = key
		if _, err := e.Start(t.Context(), from, "SELECT 1"); !fs.Is(err, fs.ErrBusy) || !strings.Contains(err.Error(), want) {
			t.Errorf("one more of %s: %v", key, err)
		}
	}
	all[0].Close()
	start(t, e, one(db), "SELECT 1").Close()
	for _, s := range all[1:] {
		s.Close()
	}
	if _, err := e.Start(t.Context(), one(db), "SELECT"); err == nil || len(e.running) != 0 {
		t.Errorf("%v, %d are left", err, len(e.running))
	}
}

// One whose reader hangs makes room for another, the oldest first.
func TestMakesRoom(t *testing.T) {
	e, from := new(Engine), one(newLedger(t))
	var all []*Statement
	for range MaxOfOne {
		all = append(all, start(t, e, from, endless+"SELECT x FROM n"))
	}
	for _, s := range all[1:3] {
		for waits := false; !waits; runtime.Gosched() {
			e.mu.Lock()
			if waits = !s.unread.IsZero(); waits {
				s.unread = s.unread.Add(-2 * grace)
			}
			e.mu.Unlock()
		}
	}
	all = append(all, start(t, e, from, endless+"SELECT x FROM n"))
	for i, s := range all {
		_, err := s.Read(context.Background(), make([]byte, 8))
		if (err != nil) != (i == 1) || i == 1 && err != errGone {
			t.Errorf("statement %d: %v", i, err)
		}
		s.Close()
	}
}

// Over all VMs a VM that was removed has no rows, and one whose ledger cannot be
// read is said.
func TestAll(t *testing.T) {
	a, b := newLedger(t), newLedger(t)
	for range 3 {
		call(t, a, ledger.Call{Time: when}, ledger.Outcome{})
	}
	call(t, b, ledger.Call{Time: when}, ledger.Outcome{})
	bad := errors.New("bad disk")
	opened := ""
	source := func(vm string, db *ledger.DB, err error) Source {
		return Source{vm, func() (*ledger.DB, func(), error) { opened += vm; return db, func() {}, err }}
	}
	from := Sources{All: true, List: func() []Source {
		return []Source{source("a", a, nil), source("gone", nil, fs.ErrNotExist), source("b", b, nil), source("bad", nil, bad)}
	}}
	for sql, want := range map[string]string{
		"SELECT vm, id FROM mcp_calls WHERE vm = 'b'":                                     `{"vm":"b","id":1}` + "\n",
		"SELECT vm, id FROM mcp_calls WHERE vm = 'a' AND id > 1 ORDER BY id DESC":         `{"vm":"a","id":3}` + "\n" + `{"vm":"a","id":2}` + "\n",
		"SELECT count(*) n FROM mcp_calls WHERE vm IN ('b', 'a', 'gone')":                 `{"n":4}` + "\n",
		"SELECT count(DISTINCT rowid) n FROM mcp_calls WHERE vm IN ('b', 'a')":            `{"n":4}` + "\n",
		"SELECT count(*) n FROM mcp_calls x JOIN mcp_calls y USING (vm) WHERE x.vm = 'a'": `{"n":9}` + "\n",
	} {
		opened = ""
		if got := answer(t, from, sql); got != want || strings.Contains(opened, "bad") {
			t.Errorf("%s:\n%s, want\n%s, opened %s", sql, got, want, opened)
		}
	}
	if text, err := ask(from, "SELECT vm FROM mcp_calls"); err == nil || err.Error() != "vm bad: bad disk" || strings.Count(text, "\n") != 4 {
		t.Errorf("a ledger that cannot be read: %q, %v", text, err)
	}
}
