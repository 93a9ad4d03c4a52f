package ledger

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBegun has a call and a command under way for longer: the texts of their tables
// tell so, and rows are one each all the same.
func TestBegun(t *testing.T) {
	ctx := t.Context()
	db, err := Open(filepath.Join(t.TempDir(), "session.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	id, wait, err := db.Begin(ctx, Call{Method: "tools/call", Tool: "slow__sleep", Decision: "allowed", Request: []byte(`{"s":9}`)})
	if err == nil {
		err = wait(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if list := db.UnderWay(); len(list) != 1 || list[0].ID != id || list[0].Tool != "slow__sleep" || time.Since(list[0].Begun) > time.Minute {
		t.Errorf("under way are %+v", list)
	}
	if !db.Begun(id) || db.Begun(id+1) {
		t.Error("what is under way is not known")
	}
	if err := db.RowBegun(ctx, Execs, Row{"exec_id": "t", "command": "sleep 9"}); err != nil {
		t.Fatal(err)
	}
	db.Decide(id, Verdict{Decision: "allowed"})
	db.End(id, Outcome{})
	db.Queue(ctx, Execs, Row{"exec_id": "t", "command": "sleep 9", "exit_code": 0})
	if len(db.UnderWay()) != 0 || db.Begun(id) {
		t.Error("a call that has ended is under way")
	}
	snap, err := db.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	carried := map[string]string{}
	if err := db.Carry(ctx, func(name string, size int64, r io.Reader) error {
		text, err := io.ReadAll(r)
		carried[name] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, begins := range map[string]string{
		Calls: `{"begun":true,"id":1,"timestamp":"`, Execs: `{"begun":true,"timestamp":"`,
	} {
		p := make([]byte, 64<<10)
		n, err := db.Log(name).ReadAt(ctx, p, 0, false)
		lines := strings.SplitAfter(string(p[:n]), "\n")
		if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], begins) || strings.Contains(lines[0], Interrupted) || !strings.HasPrefix(lines[1], `{"id":1,"timestamp"`) {
			t.Fatalf("%s: %v %q", name, err, lines)
		}
		if carried[name] != lines[1] {
			t.Errorf("%s: a pack has %q", name, carried[name])
		}
		for _, order := range []Order{ByLine, ByIDDown, ByTime} {
			rows, err := snap.Rows(ctx, tableIndex(name), All, order)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for more, err := rows.Next(); more || err != nil; more, err = rows.Next() {
				if err != nil {
					t.Fatal(err)
				}
				seen++
			}
			if seen != 1 {
				t.Errorf("%s: %d rows", name, seen)
			}
		}
		seen := 0
		if err := db.Lines(ctx, name, func([]byte) error { seen++; return nil }); err != nil || seen != 1 {
			t.Errorf("%s: %d lines, %v", name, seen, err)
		}
	}
	if n := db.Unreadable(); n != 0 {
		t.Errorf("%d lines cannot be read", n)
	}
}
