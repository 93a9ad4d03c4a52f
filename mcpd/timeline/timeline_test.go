package timeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
)

func open(t testing.TB) *ledger.DB {
	t.Helper()
	db, err := ledger.Open(filepath.Join(t.TempDir(), "session.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const id = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestShow has a line of each layer.
func TestShow(t *testing.T) {
	db := open(t)
	at := time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC)
	next := func() time.Time { at = at.Add(time.Second); return at }
	call := func(c ledger.Call, v ledger.Verdict, o ledger.Outcome) {
		c.Time, c.TraceID, o.Duration = next(), id, 1500*time.Microsecond
		n, _, err := db.Begin(t.Context(), c)
		if err == nil {
			_, err = db.Decide(n, v)
		}
		if err == nil {
			err = db.End(n, o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	row := func(table string, r ledger.Row) {
		if _, ok := r["timestamp"]; !ok {
			r["timestamp"] = next()
		}
		if err := db.Queue(t.Context(), table, r); err != nil {
			t.Fatal(err)
		}
	}
	call(ledger.Call{Method: "tools/call", Tool: "one__echo"}, ledger.Verdict{Decision: "allowed"}, ledger.Outcome{})
	call(ledger.Call{Method: "tools/call", Tool: "x\u202e\n\x1b[2J"}, ledger.Verdict{Decision: "denied", PolicyRule: "r", PolicyReason: "no"}, ledger.Outcome{Error: "blocked"})
	call(ledger.Call{Method: "tools/call", Tool: "t"}, ledger.Verdict{Decision: "allowed"}, ledger.Outcome{IsError: true})
	call(ledger.Call{Method: "roots/list", Server: "one", Direction: ledger.FromServer}, ledger.Verdict{Decision: "allowed"}, ledger.Outcome{Outcome: ledger.Interrupted, Error: "gone"})
	row(ledger.Execs, ledger.Row{"exec_id": "t", "command": "exec make", "exit_code": 2, "duration_ms": time.Second, "trace_id": "rubbish"})
	row(ledger.Execs, ledger.Row{"command": "exec make", "signal": "SIGKILL"})
	row(ledger.Files, ledger.Row{"operation": "read", "path": "/workspace/a", "outcome": "denied", "policy_rule": "r", "policy_reason": "no"})
	row(ledger.Net, ledger.Row{"method": "GET", "host": "::1", "port": 80, "path": "/a", "decision": "allowed", "status": 200})
	row(ledger.Net, ledger.Row{"method": "CONNECT", "host": "a.example", "port": 443, "decision": "denied", "rule": "default", "reason": "no"})
	row(ledger.Snapshots, ledger.Row{"event": "undone", "name": "12", "text": "1 file"})
	row(ledger.VMs, ledger.Row{"timestamp": at, "event": "undone", "text": "12: 1 file"})
	row(ledger.Security, ledger.Row{"event": "mcp.violation", "rule": "r", "text": "no"})
	row(ledger.VMs, ledger.Row{"timestamp": at, "event": "mcp.violation", "text": "no"})
	row(ledger.VMs, ledger.Row{"timestamp": at, "event": "stopped", "text": strings.Repeat("é", 300)})
	row(ledger.Asks, ledger.Row{"event": "asked", "family": "mcp.request", "what": "one__echo", "rule": "r", "reason": "why"})
	row(ledger.Asks, ledger.Row{"event": "answered", "family": "http", "rule": "r", "answer": "deny", "answer_reason": "no", "principal": "uid 1000", "waited_ms": 2.5})
	got, err := Read(t.Context(), db, Query{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`01.000000Z","layer":"mcp","id":1,"trace_id":"` + id + `","duration_ms":1.500,"status":"ok","summary":"tools/call one__echo"}`,
		`02.000000Z","layer":"mcp","id":2,"trace_id":"` + id + `","duration_ms":1.500,"status":"denied","summary":"tools/call x\u202e\n\u001b[2J: r: no"}`,
		`03.000000Z","layer":"mcp","id":3,"trace_id":"` + id + `","duration_ms":1.500,"status":"error","summary":"tools/call t"}`,
		`04.000000Z","layer":"mcp","id":4,"trace_id":"` + id + `","duration_ms":1.500,"status":"interrupted","summary":"server one asks roots/list"}`,
		`05.000000Z","layer":"exec","id":1,"trace_id":null,"duration_ms":1000.000,"status":"exit 2","summary":"exec make"}`,
		`06.000000Z","layer":"exec","id":2,"trace_id":null,"duration_ms":null,"status":"SIGKILL","summary":"exec make"}`,
		`07.000000Z","layer":"file","id":1,"trace_id":null,"duration_ms":null,"status":"denied","summary":"read /workspace/a: r: no"}`,
		`08.000000Z","layer":"net","id":1,"trace_id":null,"duration_ms":null,"status":"200","summary":"GET [::1]:80/a"}`,
		`09.000000Z","layer":"net","id":2,"trace_id":null,"duration_ms":null,"status":"denied","summary":"CONNECT a.example:443: default: no"}`,
		`10.000000Z","layer":"snapshot","id":1,"trace_id":null,"duration_ms":null,"status":"undone","summary":"12: 1 file"}`,
		`11.000000Z","layer":"vm","id":3,"trace_id":null,"duration_ms":null,"status":"stopped","summary":"` + strings.Repeat("é", 200) + `…"}`,
		`11.000000Z","layer":"security","id":1,"trace_id":null,"duration_ms":null,"status":"mcp.violation","summary":"no"}`,
		`12.000000Z","layer":"ask","id":1,"trace_id":null,"duration_ms":null,"status":"asked","summary":"one__echo: r: why"}`,
		`13.000000Z","layer":"ask","id":2,"trace_id":null,"duration_ms":2.500,"status":"deny","summary":"http: r: no (answered by uid 1000)"}`,
	}
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	for i, w := range want {
		w = `{"timestamp":"2026-07-28T10:00:` + w
		if i >= len(lines) || lines[i] != w {
			t.Errorf("line %d of %d:\n%s, want\n%s", i, len(lines), slices.Concat(lines, []string{"none"})[min(i, len(lines))], w)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
	// what has a layer of its own is none of the VM's, whichever are wanted
	for layer, n := range map[string]int{"snapshot": 9, "vm": 10, "security": 11} {
		if got, err := Read(t.Context(), db, Query{Layers: []string{layer}}); err != nil || got != lines[n]+"\n" {
			t.Errorf("layer %s: %s, %v", layer, got, err)
		}
	}
}

// TestDamaged has a row whose number is larger than any is read.
func TestDamaged(t *testing.T) {
	db := open(t)
	at := time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC)
	if err := db.Queue(t.Context(), ledger.Execs, ledger.Row{"timestamp": at, "exec_id": "t", "exit_code": uint64(1 << 63), "trace_id": id}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []Query{{}, {Trace: id}} {
		got, err := Read(t.Context(), db, q)
		if err != nil || !strings.Contains(got, `"layer":"exec","id":1,`) || !strings.Contains(got, `"status":"error","summary":"damaged row of `+ledger.Execs) {
			t.Errorf("%+v: %s, %v", q, got, err)
		}
	}
}

// TestRead holds what is read against all there is, narrowed by hand. Rows stand in
// the order in which things ended, which may be long after they began.
func TestRead(t *testing.T) {
	db := open(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	type line struct{ Timestamp, Layer, Summary string }
	var all []line
	const n = 20000
	for i := range n {
		at := now.Add(-48 * time.Hour * time.Duration(n-i) / n) // when it was written down
		if rnd.IntN(10) == 0 {
			at = at.Add(-time.Duration(rnd.Int64N(int64(10 * time.Hour))))
		}
		r := ledger.Row{"timestamp": at, "trace_id": fmt.Sprintf("%032x", 1+i%97)}
		l := line{at.UTC().Format(fs.TimeFormat), "exec", fmt.Sprintf("exec %d %s", i, strings.Repeat("x", rnd.IntN(200)))}
		table := ledger.Execs
		if r["command"] = l.Summary; i%3 == 0 {
			table, l.Layer, l.Summary = ledger.Files, "file", fmt.Sprintf("read /workspace/%d", i)
			r = ledger.Row{"timestamp": at, "operation": "read", "path": l.Summary[5:], "trace_id": r["trace_id"]}
		}
		if err := db.Queue(t.Context(), table, r); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	const last = n - 1
	for _, tt := range []struct {
		q    Query
		want func(i int, l line) bool
	}{
		{Query{}, func(int, line) bool { return true }},
		{Query{Limit: 1}, func(int, line) bool { return true }},
		{Query{Limit: MaxLines}, func(int, line) bool { return true }},
		{Query{Since: now.Add(-time.Hour), Limit: MaxLines}, func(_ int, l line) bool { return l.Timestamp >= now.Add(-time.Hour).UTC().Format(fs.TimeFormat) }},
		{Query{Until: now.Add(-30 * time.Hour), Limit: 7}, func(_ int, l line) bool { return l.Timestamp <= now.Add(-30*time.Hour).UTC().Format(fs.TimeFormat) }},
		{Query{Trace: fmt.Sprintf("%032x", 5), Limit: 50}, func(i int, _ line) bool { return i%97 == 4 }},
		{Query{Trace: fmt.Sprintf("%032x", 98)}, func(int, line) bool { return false }},
		{Query{Layers: []string{"file"}, Limit: 3000}, func(_ int, l line) bool { return l.Layer == "file" }},
		{Query{Layers: []string{"net", "mcp"}}, func(int, line) bool { return false }},
		{Query{Until: time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)}, func(int, line) bool { return false }},
		{Query{Since: now.Add(time.Hour)}, func(int, line) bool { return false }},
	} {
		var want []line
		for i, l := range all {
			if tt.want(i, l) {
				want = append(want, l)
			}
		}
		slices.SortStableFunc(want, func(a, b line) int { return strings.Compare(a.Timestamp, b.Timestamp) })
		limit := tt.q.Limit
		if limit == 0 {
			limit = DefaultLines
		}
		want = want[max(0, len(want)-limit):]
		got, err := Read(t.Context(), db, tt.q)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for text := range strings.Lines(got) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil || i >= len(want) || l != want[i] {
				t.Fatalf("%+v: line %d is %s (%v), want of %d %+v", tt.q, i, text, err, len(want), want[min(i, len(want)):min(i+1, len(want))])
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%+v: %d lines, want %d", tt.q, i, len(want))
		}
	}
}

func TestNarrow(t *testing.T) { synctest.Test(t, testNarrow) }

func testNarrow(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "{Trace: Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:0}"},
		{"# nothing", "{Trace: Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:0}"},
		{"trace " + id, "{Trace:" + id + " Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:0}"},
		{"trace 00-" + id + "-00f067aa0ba902b7-01", "{Trace:" + id + " Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:0}"},
		{"since 10m", "{Trace: Since:1999-12-31 23:50:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:0}"},
		{"until 2026-07-28T11:00:00+02:00", "{Trace: Since:0001-01-01 00:00:00 +0000 UTC Until:2026-07-28 11:00:00 +0200 +0200 Layers:[] Limit:0}"},
		{"layer mcp,exec", "{Trace: Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[mcp exec] Limit:0}"},
		{"limit 10000", "{Trace: Since:0001-01-01 00:00:00 +0000 UTC Until:0001-01-01 00:00:00 +0000 UTC Layers:[] Limit:10000}"},
		{"limit 10001", ""}, {"limit 0", ""}, {"limit -1", ""}, {"limit x", ""}, {"limit", ""}, {"limit 1 2", ""},
		{"since", ""}, {"since -10m", ""}, {"since 10", ""}, {"since 2026-07-28", ""}, {"since 9999-12-31T23:59:59-10:00", ""}, {"until 0001-01-01T00:00:00Z", ""},
		{"layer MCP", ""}, {"layer ''", ""}, {"layer mcp,", ""}, {"layer mcp exec", ""},
		{"trace", ""}, {"trace x", ""}, {"trace " + strings.ToUpper(id), ""}, {"trace " + strings.Repeat("0", 32), ""}, {"trace '" + id + "\n'", ""},
		{"where 1", ""}, {"trace '", ""},
	} {
		var q Query
		err := q.Narrow(Words, tt.in)
		got := fmt.Sprintf("{Trace:%s Since:%v Until:%v Layers:%v Limit:%d}", q.Trace, q.Since.Round(0).UTC(), q.Until, q.Layers, q.Limit)
		if tt.want == "" && (err == nil || !fs.Is(err, fs.ErrInvalid)) || tt.want != "" && (err != nil || got != tt.want) {
			t.Errorf("%q: %s, %v", tt.in, got, err)
		}
	}
}

// FuzzNarrow has a bad message change nothing, and a good one make a Query that
// can be read by.
func FuzzNarrow(f *testing.F) {
	for _, s := range []string{"trace " + id, "since 10m", "until 2026-07-28T10:00:00Z", "layer mcp,exec", "limit 5", "limit '5'", "x", "since 9223372036s"} {
		f.Add(s)
	}
	db := open(f)
	db.Queue(f.Context(), ledger.VMs, ledger.Row{"event": "made"})
	f.Fuzz(func(t *testing.T, message string) {
		var q Query
		if err := q.Narrow(Words, message); err != nil {
			if fmt.Sprint(q) != fmt.Sprint(Query{}) {
				t.Fatalf("%q: %v, and yet %+v", message, err, q)
			}
			return
		}
		if _, err := Read(t.Context(), db, q); err != nil {
			t.Fatalf("%q: %v", message, err)
		}
	})
}

// BenchmarkRead reads the timeline of 100,000 commands.
func BenchmarkRead(b *testing.B) {
	db := open(b)
	now := time.Now()
	const n = 100000
	for i := range n {
		db.Queue(b.Context(), ledger.Execs, ledger.Row{
			"timestamp": now.Add(-24 * time.Hour * time.Duration(n-i) / n), "command": "exec make test", "exit_code": 0,
			"duration_ms": 5, "stdout_preview": strings.Repeat("some output\n", 20), "trace_id": fmt.Sprintf("%032x", 1+i),
		})
	}
	db.Flush(b.Context())
	for name, q := range map[string]Query{
		"newest": {}, "since": {Since: now.Add(-10 * time.Minute)}, "trace": {Trace: fmt.Sprintf("%032x", 7)}, "most": {Limit: MaxLines},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(b.Context(), db, q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
