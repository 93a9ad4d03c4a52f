package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
)

// kept returns what a new reader reads of a table.
func kept(t *testing.T, db *DB, table string) []map[string]any {
	t.Helper()
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	return records(t, readAll(t, db.Log(table).Reader()))
}

func readAll(t *testing.T, r *Reader) string {
	t.Helper()
	var b strings.Builder
	p := make([]byte, 7777)
	for {
		n, err := r.ReadAt(bg, p, int64(b.Len()), false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// However much is recorded, the file stays at its limit. What goes is the
// oldest, is told of, and is never what another table has.
func TestLimit(t *testing.T) {
	const limit, little = 4 << 20, 3 << 20
	path := temp(t)
	var told []string
	db := open(t, path, Options{Limit: limit, Told: func(s string) { told = append(told, s) }})
	keepTails(db, 64<<10)
	if err := db.Append(bg, Security, Row{"event": "seen", "text": "the only one"}); err != nil {
		t.Fatal(err)
	}
	lag := db.Log(Calls).Reader()
	begun := begin1(t, db, Call{Tool: "under way all the time"})
	const calls, each = 200, 16
	for i := range calls {
		for k := range each {
			id, _, err := db.Begin(bg, Call{Tool: fmt.Sprint(i*each + k), Request: []byte(strings.Repeat("x", i*37%4000))})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.End(id, Outcome{Response: []byte(strings.Repeat("y", k*500))}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(bg); err != nil {
			t.Fatal(err)
		}
		if i == 3 { // one that read half of the first line
			if n, err := lag.ReadAt(bg, make([]byte, 100), 0, true); n != 100 || err != nil {
				t.Fatal(n, err)
			}
		}
		if n := fileSize(t, path); n > limit+little {
			t.Fatalf("after %d calls the file has %d bytes", i*each, n)
		}
	}
	check := func() {
		t.Helper()
		list := kept(t, db, Calls)
		if len(list) < 100 || len(list) >= calls*each {
			t.Fatalf("%d calls are kept", len(list))
		}
		for i, r := range list {
			if want := fmt.Sprint(calls*each - len(list) + i); r["tool_name"] != want {
				t.Fatalf("call %d of %d is %v, want %s", i, len(list), r["tool_name"], want)
			}
		}
		if s := kept(t, db, Security); len(s) != 1 {
			t.Errorf("%d of 1 security events are kept", len(s))
		}
	}
	check()
	dropped := 0
	for _, r := range kept(t, db, VMs) {
		var n int
		if r["event"] == EventDropped {
			fmt.Sscanf(r["text"].(string), "mcp_calls: the oldest %d lines", &n)
		}
		dropped += n
	}
	if n := len(kept(t, db, Calls)); dropped+n != calls*each {
		t.Errorf("%d dropped and %d kept of %d", dropped, n, calls*each)
	}
	if len(told) == 0 {
		t.Error("nobody was told")
	}
	rest := readLag(t, lag, 100)
	if first, whole, _ := strings.Cut(rest, "\n"); first != "" || whole != readAll(t, db.Log(Calls).Reader()) {
		t.Errorf("who lagged goes on with %.80q", rest)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, Options{Limit: limit})
	calls2 := kept(t, db, Calls)
	if last := calls2[len(calls2)-1]; fmt.Sprint(last["id"]) != fmt.Sprint(begun) || last["outcome"] != Interrupted {
		t.Errorf("the call that was under way is %v", last)
	}
	id := begin1(t, db, Call{Tool: "next"})
	if id <= calls*each {
		t.Errorf("the next call is %d", id)
	}
	end1(t, db, id, Outcome{})
	calls2 = kept(t, db, Calls)
	if last := calls2[len(calls2)-1]; last["tool_name"] != "next" {
		t.Errorf("after the last comes %v", last)
	}
}

func readLag(t *testing.T, r *Reader, off int64) string {
	t.Helper()
	var b strings.Builder
	p := make([]byte, 5000)
	for {
		n, err := r.ReadAt(bg, p, off+int64(b.Len()), false)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

// Who follows and keeps up gets every line, however many were dropped.
func TestLimitFollowed(t *testing.T) {
	const rows = 20000
	db := open(t, temp(t), Options{Limit: 1 << 20})
	keepTails(db, 16<<10)
	lines := make(chan int)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	go func() {
		defer close(lines)
		r, off, p := db.Log(Net).Reader(), int64(0), make([]byte, 64<<10)
		for {
			n, err := r.ReadAt(ctx, p, off, true)
			if err != nil || n == 0 {
				return
			}
			off += int64(n)
			lines <- strings.Count(string(p[:n]), "\n")
		}
	}()
	got := 0
	for i := 0; i < rows; i += 100 {
		for range 100 {
			if err := db.Queue(bg, Net, Row{"host": "example.com", "path": strings.Repeat("p", 100)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(bg); err != nil {
			t.Fatal(err)
		}
		for got < i+100 {
			n, ok := <-lines
			if !ok {
				t.Fatalf("the follower ended after %d lines", got)
			}
			got += n
		}
	}
	if begin, _ := db.Log(Net).Span(); begin == 0 {
		t.Error("nothing was dropped")
	}
}

// Calls under way are never dropped, so they may not fill the file.
func TestLimitUnderWay(t *testing.T) {
	db := open(t, temp(t), Options{Limit: 1 << 20})
	request, _ := json.Marshal(strings.Repeat("x", 3000))
	var ids []uint64
	for {
		id, err := db.beginWait(bg, Call{Request: request})
		if err != nil {
			if !errors.Is(err, fs.ErrNoSpace) || !strings.Contains(err.Error(), "too many calls are under way") {
				t.Fatal(err)
			}
			break
		}
		if ids = append(ids, id); len(ids) > 1000 {
			t.Fatal("calls under way fill the file")
		}
	}
	end1(t, db, ids[0], Outcome{})
	begin1(t, db, Call{Request: request})
}

// A file that has grown is dropped from when its limit gets lower.
func TestLimitLowered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.db")
	db := open(t, path, Options{})
	fillRows := func(n int) {
		for range n {
			if err := db.Queue(bg, VMs, Row{"text": strings.Repeat("z", 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(bg); err != nil {
			t.Fatal(err)
		}
	}
	fillRows(4000)
	size := fileSize(t, path)
	db.SetLimit(1 << 20)
	for range 40 {
		fillRows(100)
	}
	if n := fileSize(t, path); n > size+1<<20 {
		t.Errorf("grew from %d to %d", size, n)
	}
}

// TestLimitOfUse has a limit be lowered of a file that holds more: with what comes next
// the oldest records go until it holds, and the newest stay.
func TestLimitOfUse(t *testing.T) {
	const limit = 2 << 20
	db := open(t, temp(t), Options{Limit: 16 << 20})
	for i := range 2000 {
		if err := db.Queue(bg, Security, Row{"event": fmt.Sprint(i), "text": strings.Repeat("x", 3000)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(bg); err != nil {
		t.Fatal(err)
	}
	if n := db.Kept(); n < 2*limit {
		t.Fatalf("only %d bytes are kept", n)
	}
	db.SetLimit(limit)
	if err := db.Append(bg, Security, Row{"event": "last"}); err != nil {
		t.Fatal(err)
	}
	if n := db.Kept(); n > limit || n < limit/4 {
		t.Errorf("%d bytes are kept, of %d", n, limit)
	}
	rows := kept(t, db, Security)
	if got := rows[len(rows)-1]["event"]; got != "last" {
		t.Errorf("the last is %v", got)
	}
	if got := rows[len(rows)-2]["event"]; got != "1999" {
		t.Errorf("the one before is %v", got)
	}
}
