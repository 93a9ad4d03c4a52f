package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

var bg = context.Background()

func open(t testing.TB, path string, opt Options) *DB {
	t.Helper()
	db, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// keepTails has n bytes at the end of each table kept in memory.
func keepTails(db *DB, n int) {
	for _, l := range db.logs {
		l.keep = n
	}
}

func temp(t testing.TB) string { return filepath.Join(t.TempDir(), "session.db") }

// all returns the whole text of a table.
func all(t testing.TB, db *DB, name string) string {
	t.Helper()
	l := db.Log(name)
	var b []byte
	buf := make([]byte, 1000)
	for {
		n, err := l.ReadAt(bg, buf, int64(len(b)), false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return string(b)
		}
		b = append(b, buf[:n]...)
	}
}

// records parses a table's text.
func records(t testing.TB, text string) []map[string]any {
	t.Helper()
	var recs []map[string]any
	for line := range strings.Lines(text) {
		var m map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		recs = append(recs, m)
	}
	return recs
}

// keys returns the keys of a JSON object in their order.
func keys(t *testing.T, line string) (names []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.Token()
	for d.More() {
		k, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, k.(string))
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// beginWait returns when the beginning is durable. If it fails there is no
// record, and End must not be called.
func (db *DB) beginWait(ctx context.Context, c Call) (uint64, error) {
	id, wait, err := db.Begin(ctx, c)
	if err != nil {
		return 0, err
	}
	if err := wait(ctx); err != nil {
		if ctx.Err() != nil {
			// It may be durable all the same: then it gets its line.
			db.End(id, Outcome{Error: Interrupted, Outcome: Interrupted})
		} else {
			db.forget(id)
		}
		return 0, err
	}
	return id, nil
}

func (db *DB) forget(id uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if p := db.pending[id]; p != nil {
		delete(db.pending, id)
		db.release(p)
	}
}

// endWait returns when the outcome is durable. If it fails for want of space
// the outcome is still queued.
func (db *DB) endWait(ctx context.Context, id uint64, o Outcome) error {
	b, err := db.end(id, &o)
	if err != nil {
		return err
	}
	signal(db.wake)
	return b.wait(ctx)
}

func begin1(t testing.TB, db *DB, c Call) uint64 {
	t.Helper()
	id, err := db.beginWait(bg, c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func end1(t testing.TB, db *DB, id uint64, o Outcome) {
	t.Helper()
	if err := db.endWait(bg, id, o); err != nil {
		t.Fatal(err)
	}
}

func TestCall(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	db.AddSecrets("very-secret-value")
	when := time.Date(2026, 11, 20, 10, 0, 0, 123456789, time.FixedZone("", 3600))
	id := begin1(t, db, Call{
		Time: when, Server: "github", Method: "tools/call", Tool: "search", RequestID: `"7"`,
		Decision: "allowed", Request: []byte(`{"password":"x","q":"very-secret-value"}`), Process: "claude\n",
		BytesSent: 40, PolicyAction: "allow", PolicyRule: "default", PolicyReason: "", TraceID: "4bf9",
	})
	if db.Log(Calls).Size() != 0 {
		t.Error("a call under way is in the log")
	}
	end1(t, db, id, Outcome{Duration: 12345 * time.Microsecond, Response: []byte(`{"ok":true}`), BytesReceived: 11})
	want := `{"id":1,"timestamp":"2026-11-20T09:00:00.123456Z","server_name":"github","method":"tools/call","tool_name":"search",` +
		`"request_id":"\"7\"","decision":"allowed","duration_ms":12.345,"request_preview":"{\"password\":\"[redacted]\",\"q\":\"[redacted]\"}",` +
		`"response_preview":"{\"ok\":true}","error_message":null,"process_name":"claude\n","bytes_sent":40,"bytes_received":11,` +
		`"policy_action":"allow","policy_rule":"default","policy_reason":null,"trace_id":"4bf9","outcome":"ok","is_error":0,"direction":"guest","principal":null}` + "\n"
	if got := all(t, db, Calls); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
	if got := keys(t, want); !slices.Equal(got, columnsOf(Calls)) {
		t.Errorf("columns are %v, keys %v", columnsOf(Calls), got)
	}
	if err := db.End(id, Outcome{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second End: %v", err)
	}
	left := begin1(t, db, Call{Server: "s", Decision: "denied", Tool: "t"})
	id = begin1(t, db, Call{Server: "s", Decision: "allowed"})
	end1(t, db, id, Outcome{Error: "no such tool", Decision: "error"})
	db.Close()

	db = open(t, path, Options{})
	recs := records(t, all(t, db, Calls))
	if len(recs) != 3 {
		t.Fatalf("%d records, want 3", len(recs))
	}
	if r := recs[1]; r["outcome"] != Failed || r["decision"] != "error" || r["error_message"] != "no such tool" {
		t.Errorf("failed call: %v", r)
	}
	r := recs[2]
	if r["id"] != json.Number(fmt.Sprint(left)) || r["outcome"] != Interrupted || r["decision"] != "denied" ||
		r["error_message"] != Interrupted || r["duration_ms"] != nil || r["tool_name"] != "t" {
		t.Errorf("interrupted call: %v", r)
	}
	if got := keys(t, strings.SplitAfter(all(t, db, Calls), "\n")[2]); !slices.Equal(got, columnsOf(Calls)) {
		t.Errorf("keys of an interrupted call: %v", got)
	}
	if id := begin1(t, db, Call{}); id != 4 {
		t.Errorf("the next call is number %d, want 4", id)
	}
}

// Begin and End in one batch, and many of them at once.
func TestCallAsync(t *testing.T) {
	db := open(t, temp(t), Options{})
	for range 100 {
		id, wait, err := db.Begin(bg, Call{Tool: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.End(id, Outcome{}); err != nil {
			t.Fatal(err)
		}
		if err := wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if n := len(records(t, all(t, db, Calls))); n != 100 {
		t.Errorf("%d records, want 100", n)
	}
	path := db.path
	db.Close()
	db = open(t, path, Options{})
	if n := len(records(t, all(t, db, Calls))); n != 100 {
		t.Errorf("%d records after a restart, want 100", n)
	}
}

func TestBeginCancelled(t *testing.T) {
	db := open(t, temp(t), Options{})
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for range 50 {
		if id, err := db.beginWait(ctx, Call{Tool: "t"}); err == nil {
			end1(t, db, id, Outcome{})
		}
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if n := len(records(t, all(t, db, Calls))); n != 50 {
		t.Errorf("%d records, want 50", n)
	}
	if len(db.pending) != 0 {
		t.Errorf("%d calls are under way", len(db.pending))
	}
}

func TestRows(t *testing.T) {
	db := open(t, temp(t), Options{})
	for _, tt := range []struct {
		table string
		row   Row
		err   string
	}{
		{Execs, Row{"exec_id": "1", "command": "curl -H 'Cookie: x'", "exit_code": 0, "duration_ms": 3 * time.Millisecond, "stdout_bytes": int64(5), "pid": uint64(9)}, ""},
		{VMs, Row{"event": "started", "timestamp": time.Unix(0, 0), "text": []byte("ok")}, ""},
		{Security, Row{}, ""},
		{Security, Row{"text": strings.Repeat("long ", 10000), "rule": strings.Repeat("é", 1000)}, ""},
		{Security, Row{"txet": "x"}, `invalid argument: table security_events has no column "txet"`},
		{VMs, Row{"event": 3}, "invalid argument: a int is not text: table vm_events, column event"},
		{Execs, Row{"duration_ms": "3"}, "invalid argument: a string is not a number: table exec_events, column duration_ms"},
		{VMs, Row{"timestamp": "now"}, "invalid argument: timestamp is a string"},
		{Calls, Row{}, `invalid argument: no table "mcp_calls" to append to`},
		{"nope", Row{}, `invalid argument: no table "nope" to append to`},
	} {
		err := db.Append(bg, tt.table, tt.row)
		if err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
			t.Errorf("%s %.60v: %v, want %q", tt.table, tt.row, err, tt.err)
		}
	}
	for _, table := range tables {
		name := table.name
		for i, r := range records(t, all(t, db, name)) {
			if r["id"] != json.Number(fmt.Sprint(i+1)) {
				t.Errorf("%s: record %d has id %v", name, i+1, r["id"])
			}
		}
		for line := range strings.Lines(all(t, db, name)) {
			if got := keys(t, line); !slices.Equal(got, columnsOf(name)) {
				t.Errorf("%s: keys %v", name, got)
			}
			if len(line) > 8000 {
				t.Errorf("%s: a line of %d bytes", name, len(line))
			}
		}
	}
	if !strings.Contains(all(t, db, Execs), "Cookie: [redacted]") {
		t.Error("not redacted:", all(t, db, Execs))
	}
}

// More than one batch holds is taken all the same.
func TestQueueMany(t *testing.T) {
	db := open(t, temp(t), Options{})
	const n = 2*batchOps + 100
	for range n {
		if err := db.Queue(bg, Security, Row{"event": "e"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(all(t, db, Security), "\n"); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

// Every offset reads the same from memory, from the file, and after a restart.
func TestOffsets(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	keepTails(db, 2000)
	for i := range 300 {
		if err := db.Queue(bg, VMs, Row{"event": "e", "text": strings.Repeat("x", i*i%5000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	text := all(t, db, VMs)
	check := func() {
		t.Helper()
		l := db.Log(VMs)
		if l.Size() != int64(len(text)) {
			t.Fatalf("size %d, want %d", l.Size(), len(text))
		}
		for range 2000 {
			off := rand.IntN(len(text) + 10)
			p := make([]byte, 1+rand.IntN(12000))
			n, err := l.ReadAt(bg, p, int64(off), false)
			if err != nil {
				t.Fatal(err)
			}
			if off >= len(text) && n != 0 || off < len(text) && (n == 0 || !strings.HasPrefix(text[off:], string(p[:n]))) {
				t.Fatalf("wrong bytes at %d", off)
			}
		}
		if _, err := l.ReadAt(bg, make([]byte, 1), -1, false); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("offset -1: %v", err)
		}
	}
	check()
	db.Close()
	db = open(t, path, Options{})
	keepTails(db, 2000)
	check()
	if err := db.Append(bg, VMs, Row{"event": "last"}); err != nil {
		t.Fatal(err)
	}
	more := all(t, db, VMs)
	if !strings.HasPrefix(more, text) || !strings.HasPrefix(more[len(text):], `{"id":301,`) {
		t.Errorf("after a restart: %.200s", more[len(text):])
	}
}

func TestClose(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	id := begin1(t, db, Call{})
	ended := make(chan error)
	go func() {
		n, err := db.Log(Calls).ReadAt(bg, make([]byte, 10), 0, true)
		if n != 0 {
			err = fmt.Errorf("read %d bytes", n)
		}
		ended <- err
	}()
	for range 100 {
		if err := db.Queue(bg, VMs, Row{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a follower of a closed database: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	_, err := db.beginWait(bg, Call{})
	for _, err := range []error{err, db.End(id, Outcome{}), db.Append(bg, VMs, Row{}), db.Queue(bg, VMs, Row{}), db.Flush(bg)} {
		if !errors.Is(err, fs.ErrPipe) {
			t.Errorf("after Close: %v", err)
		}
	}
	if n := len(records(t, all(t, open(t, path, Options{}), VMs))); n != 100 {
		t.Errorf("%d of 100 queued records were written", n)
	}
}

func TestOpenTwice(t *testing.T) {
	path := temp(t)
	open(t, path, Options{})
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrBusy) {
		t.Errorf("a second Open: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "session.db"), Options{}); fs.Errno(err) != fs.Errno(fs.ErrNotExist) {
		t.Errorf("in a folder that is missing: %v", err)
	}
}

// circle lets the branches of every tree lead to themselves.
func circle(b []byte) []byte {
	for id := 2; id < len(b)/4096; id++ {
		page := b[id*4096:][:4096]
		if binary.NativeEndian.Uint64(page) != uint64(id) || binary.NativeEndian.Uint16(page[8:]) != branchFlag {
			continue
		}
		for at := pageHead; at < pageHead+branchSize*int(binary.NativeEndian.Uint16(page[10:])); at += branchSize {
			binary.NativeEndian.PutUint64(page[at+8:], uint64(id))
		}
	}
	return b
}

func TestDamaged(t *testing.T) {
	path := temp(t)
	db := open(t, path, Options{})
	for i := range 200 {
		db.Queue(bg, VMs, Row{"text": strings.Repeat(fmt.Sprint(i), 100)})
		db.beginWait(bg, Call{})
	}
	db.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		damage func([]byte) []byte
	}{
		{"text", func([]byte) []byte { return bytes.Repeat([]byte("not a database\n"), 1000) }},
		{"short", func(b []byte) []byte { return b[:100] }},
		{"meta pages only", func(b []byte) []byte { return b[:8192] }},
		{"half", func(b []byte) []byte { return b[:len(bytes.TrimRight(b, "\x00"))/2&^4095] }},
		{"zeros", func(b []byte) []byte { clear(b[8192:]); return b }},
		{"a circle", circle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := temp(t)
			os.WriteFile(path, tt.damage(bytes.Clone(good)), 0o600)
			if db, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) || !errors.Is(err, fs.ErrIO) {
				t.Errorf("Open: %v", err)
				if err == nil {
					db.Close()
				}
			}
			aside, err := SetAside(path)
			if err != nil {
				t.Fatal(err)
			}
			open(t, path, Options{})
			second, err := SetAside(path)
			if err != nil || second == aside {
				t.Errorf("a second file aside: %q, %v", second, err)
			}
		})
	}
	t.Run("anywhere", func(t *testing.T) {
		for range 60 {
			b := bytes.Clone(good)
			page := rand.IntN(min(len(b), 1<<20)/4096) * 4096
			for range 40 {
				b[page+rand.IntN(4096)] ^= byte(1 + rand.IntN(255))
			}
			path := temp(t)
			os.WriteFile(path, b, 0o600)
			db, err := Open(path, Options{})
			if err != nil {
				continue
			}
			buf := make([]byte, 1<<16)
			for off := int64(0); ; {
				n, err := db.Log(VMs).ReadAt(bg, buf, off, false)
				if n == 0 || err != nil {
					break
				}
				off += int64(n)
			}
			db.Append(bg, VMs, Row{"event": "x"})
			db.Close()
		}
	})
}

// columnsOf returns the keys of a table's records in their order.
func columnsOf(table string) []string {
	names := []string{"id", "timestamp"}
	for _, c := range tables[tableIndex(table)].columns {
		names = append(names, c.name)
	}
	return names
}
