package query

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/mcpd/query/sqltext"
)

func newLedger(t testing.TB) *ledger.DB {
	t.Helper()
	db, err := ledger.Open(filepath.Join(t.TempDir(), "session.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// call records a call, whose number it returns.
func call(t testing.TB, db *ledger.DB, c ledger.Call, o ledger.Outcome) uint64 {
	t.Helper()
	c.Decision = "allowed"
	id, _, err := db.Begin(context.Background(), c)
	if err == nil {
		err = db.End(id, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func one(db *ledger.DB) Sources {
	return Sources{Key: "dev", List: func() []Source {
		return []Source{{"dev", func() (*ledger.DB, func(), error) { return db, func() {}, nil }}}
	}}
}

// reader is a statement as an io.Reader.
type reader struct{ *Statement }

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Statement.Read(context.Background(), p)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func ask(from Sources, sql string) (string, error) {
	s, err := new(Engine).Start(context.Background(), from, sql)
	if err != nil {
		return "", err
	}
	defer s.Close()
	text, err := io.ReadAll(reader{s})
	return string(text), err
}

// answer is ask, for what has one.
func answer(t testing.TB, from Sources, sql string) string {
	t.Helper()
	text, err := ask(from, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

var when = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func TestAnswers(t *testing.T) {
	db := newLedger(t)
	for i := range 5 {
		call(t, db, ledger.Call{Time: when.Add(time.Duration(i) * time.Minute), Server: "s", Method: "tools/call", Tool: "s__\"x\"\u202e", Request: []byte(`{"a":"ü\n"}`)},
			ledger.Outcome{Duration: time.Duration(i+1) * 1500 * time.Microsecond, IsError: i == 3})
	}
	db.Append(context.Background(), ledger.Execs, ledger.Row{"timestamp": when, "exec_id": "t", "exit_code": 2, "mcp_call_id": 3})
	for sql, want := range map[string]string{
		"SELECT count(*), avg(duration_ms) d FROM mcp_calls":                                                    `{"count(*)":5,"d":4.5}`,
		"select id, is_error, principal, duration_ms from mcp_calls where id > 3 -- the last":                   `{"id":4,"is_error":1,"principal":null,"duration_ms":6.0}` + "\n" + `{"id":5,"is_error":0,"principal":null,"duration_ms":7.5}`,
		"SELECT tool_name, request_preview FROM mcp_calls WHERE id = 1":                                         `{"tool_name":"s__\"x\"\u202e","request_preview":"{\"a\":\"ü\\n\"}"}`,
		"SELECT id FROM mcp_calls WHERE timestamp >= '2026-11-20T09:03' AND timestamp < '2026-11-20T09:04'":     `{"id":4}`,
		"SELECT c.id, e.id, exit_code FROM exec_events e JOIN mcp_calls c ON c.id = e.mcp_call_id":              `{"id":3,"id:1":1,"exit_code":2}`,
		"SELECT max(id) FROM mcp_calls WHERE id IN (1, 2, 9)":                                                   `{"max(id)":2}`,
		"SELECT count(*) n FROM mcp_calls WHERE id > '3'":                                                       `{"n":2}`,
		"SELECT count(*) n FROM mcp_calls WHERE id > 3.5":                                                       `{"n":2}`,
		"SELECT count(*) n FROM mcp_calls WHERE id > NULL":                                                      `{"n":0}`,
		"SELECT count(*) n FROM mcp_calls WHERE id > -7":                                                        `{"n":5}`,
		"SELECT x'00ff' b, 1e999 i, 2.0 r, '' e, NULL n":                                                        `{"b":"00ff","i":9e999,"r":2.0,"e":"","n":null}`,
		"SELECT instr('äbc','c') a, instr('a','z') z, instr(x'0102',x'02') b, replace('aXbX','X','yy') r":       `{"a":3,"z":0,"b":2,"r":"ayybyy"}`,
		"SELECT trim('äxay', 'ya') a, ltrim('  x ', ' ') b, rtrim('x', '') c, trim('a', NULL) d, trim(' x ') e": `{"a":"äx","b":"x ","c":"x","d":null,"e":"x"}`,
		"EXPLAIN QUERY PLAN SELECT 1":                                                                           `{"id":1,"parent":0,"notused":0,"detail":"SCAN CONSTANT ROW"}`,
		"SELECT value FROM json_each('[1]');":                                                                   `{"value":1}`,
		"SELECT id FROM mcp_calls ORDER BY id DESC LIMIT 2":                                                     `{"id":5}` + "\n" + `{"id":4}`,
		"SELECT group_concat(id) FROM (SELECT id FROM mcp_calls WHERE id < 4 ORDER BY timestamp DESC, id DESC)": `{"group_concat(id)":"3,2,1"}`,
		"SELECT DISTINCT id > 2 x FROM mcp_calls WHERE id IN (4, 1) ORDER BY id DESC":                           `{"x":1}` + "\n" + `{"x":0}`,
		"SELECT id FROM mcp_calls WHERE rowid = 'x' OR rowid = -1":                                              "",
		"SELECT id FROM net_events":                                                                             "",
	} {
		if got := answer(t, one(db), sql); got != strings.TrimPrefix(want+"\n", "\n") {
			t.Errorf("%s:\n%swant\n%s", sql, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	db := newLedger(t)
	call(t, db, ledger.Call{}, ledger.Outcome{})
	for _, tt := range []struct {
		sql, want string
		kind      error
	}{
		{"SELEC 1", `sql: near "SELEC": syntax error`, fs.ErrInvalid},
		{"SELECT nowhere FROM mcp_calls", "no such column: nowhere", fs.ErrInvalid},
		{"SELECT 1; SELECT 2", "one statement at a time", fs.ErrInvalid},
		{" -- no", "statement is empty", fs.ErrInvalid},
		{"SELECT '" + strings.Repeat("x", 1<<20) + "'", "at most 65536", fs.ErrInvalid},
		{"INSERT INTO mcp_calls (id) VALUES (1)", "sql:", fs.ErrPermission},
		{"DELETE FROM mcp_calls", "sql:", fs.ErrPermission},
		{"DROP TABLE mcp_calls", "sql:", fs.ErrPermission},
		{"CREATE TABLE x (y)", "a statement may only read, and not for long", fs.ErrPermission},
		{"CREATE TEMP TABLE x AS SELECT 1", "a statement may only read, and not for long", fs.ErrPermission},
		{"CREATE VIRTUAL TABLE x USING fts5(y)", "a statement may only read, and not for long", fs.ErrPermission},
		{"ATTACH '/etc/passwd' AS p", "a statement may only read, and not for long", fs.ErrPermission},
		{"PRAGMA database_list", "a statement may only read, and not for long", fs.ErrPermission},
		{"SELECT * FROM pragma_database_list", "a statement may only read, and not for long", fs.ErrPermission},
		{"SELECT load_extension('x')", "no such function: load_extension", fs.ErrInvalid},
		{"BEGIN", "a statement may only read, and not for long", fs.ErrPermission},
		{"VACUUM INTO '/tmp/x'", "sql:", fs.ErrPermission},
		{"EXPLAIN DELETE FROM mcp_calls", "sql:", fs.ErrPermission},
		{"EXPLAIN PRAGMA database_list", "a statement may only read, and not for long", fs.ErrPermission},
		{"SELECT json_patch(1, 2)", "json_patch is not allowed", fs.ErrPermission},
		{"SELECT unhex('30', ' ')", "unhex is not allowed", fs.ErrPermission},
		{"SELECT method LIKE '" + strings.Repeat("x", 51) + "' FROM mcp_calls", "LIKE or GLOB pattern too complex", fs.ErrInvalid},
		{"SELECT length(randomblob(1000000000))", "a value of more than 65536", fs.ErrInvalid},
		{"SELECT length(zeroblob(1000000000))", "a value of more than 65536", fs.ErrInvalid},
		{"SELECT length(printf('%1000000000d', 1))", "a value of more than 65536", fs.ErrInvalid},
		{"SELECT length(replace(printf('%20000d', 1), ' ', '12345'))", "a value of more than 65536", fs.ErrInvalid},
		{"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT group_concat(x) FROM n", "", nil},
		{"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT zeroblob(60000) FROM n ORDER BY x", "more than 64 MiB of memory", fs.ErrNoSpace},
		{"WITH RECURSIVE n(x) AS (SELECT 1 UNION SELECT x+1 FROM n) SELECT count(*) FROM n", "", nil},
		{"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT count(*) FROM n", "more than 5s of work", fs.ErrTimedOut},
		{"SELECT " + strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000), "", fs.ErrInvalid},
		{strings.Repeat("SELECT 1 UNION ", 200) + "SELECT 1", "too many terms", fs.ErrInvalid},
	} {
		text, err := ask(one(db), tt.sql)
		if err == nil && tt.kind == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.kind != nil && !fs.Is(err, tt.kind) {
			t.Errorf("%.80s: %v, answer %.100s, want %q", tt.sql, err, text, tt.want)
		}
	}
}

// FuzzSQL asks any text. It ends in time, changes nothing, and hands out rows that
// are lines of JSON.
func FuzzSQL(f *testing.F) {
	for _, sql := range []string{
		"SELECT count(*), avg(duration_ms) FROM mcp_calls WHERE id > 1 AND timestamp < '2027' ORDER BY id DESC",
		"SELECT * FROM mcp_calls c JOIN exec_events e ON c.id = e.mcp_call_id WHERE c.rowid IN (1, 2)",
		"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n LIMIT 9) SELECT group_concat(x, '\n') FROM n",
		"SELECT json_extract(request_preview, '$.a'), instr(method, 'x'), replace(method, 'a', 'b') FROM mcp_calls",
		"VALUES (1, 2.5, x'00', NULL, 1e999)", "PRAGMA user_version", "ATTACH ':memory:' AS m", "INSERT INTO mcp_calls VALUES (1)", "SELECT '\x00'", "/*",
		"SELECT row_number() OVER (PARTITION BY method ORDER BY timestamp) FROM mcp_calls",
	} {
		f.Add(sql)
	}
	db := newLedger(f)
	for i := range 3 {
		call(f, db, ledger.Call{Time: when, Method: "tools/call", Request: []byte(`{"a":1}`)}, ledger.Outcome{Duration: time.Duration(i+1) * time.Millisecond})
	}
	db.Flush(context.Background())
	size := db.Log(ledger.Calls).Size()
	f.Fuzz(func(t *testing.T, sql string) {
		e := new(Engine)
		new(sqltext.Text).Add(sql)
		began := time.Now()
		s, err := e.Start(t.Context(), one(db), sql)
		if err == nil {
			s.quick(time.Second)
			var text []byte
			text, err = io.ReadAll(io.LimitReader(reader{s}, 1<<20))
			s.Close()
			for line := range bytes.Lines(text) {
				if bytes.HasSuffix(line, []byte("\n")) && !json.Valid(line) {
					t.Errorf("%q: no JSON: %s", sql, line)
				}
			}
		}
		if err != nil && fs.Is(err, fs.ErrIO) {
			t.Errorf("%q: %v", sql, err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%q: %s", sql, took)
		}
		if len(e.running) != 0 || db.Log(ledger.Calls).Size() != size {
			t.Errorf("%q: %d are left, %d bytes of calls", sql, len(e.running), db.Log(ledger.Calls).Size())
		}
	})
}

// quick has a statement end soon.
func (s *Statement) quick(limit time.Duration) { time.AfterFunc(limit, func() { s.cancel(errWork) }) }
