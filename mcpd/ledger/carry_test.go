package ledger

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/fs"
)

func opened(t *testing.T) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "session.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func carried(t *testing.T, db *DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := db.Carry(t.Context(), func(name string, size int64, r io.Reader) error {
		text, err := io.ReadAll(r)
		if int64(len(text)) != size {
			t.Errorf("%s has %d bytes, and says %d", name, len(text), size)
		}
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCarry has the records of one database be those of another, which goes on
// with them.
func TestCarry(t *testing.T) {
	a := opened(t)
	for range 3 {
		id, wait, err := a.Begin(t.Context(), Call{Server: "s", Method: "tools/call", Tool: "s__t", Decision: "allowed", Request: []byte(`{"a":"<&>"}`)})
		if err == nil {
			err = errors.Join(wait(t.Context()), a.End(id, Outcome{Response: []byte("é\n"), Duration: 1500 * time.Microsecond}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5000 {
		if err := a.Queue(t.Context(), VMs, Row{"event": "e", "text": strings.Repeat("x", i%300)}); err != nil {
			t.Fatal(err)
		}
	}
	want := carried(t, a)
	b := opened(t)
	for name, text := range want {
		if err := b.Receive(t.Context(), name, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	got := carried(t, b)
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("table %s: got %.300q, want %.300q", name, got[name], want[name])
		}
	}
	path := b.path
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Append(t.Context(), VMs, Row{"event": "next"}); err != nil {
		t.Fatal(err)
	}
	if text := carried(t, b)[VMs]; !strings.HasPrefix(text, want[VMs]+`{"id":5001,`) {
		t.Errorf("the next is %q", text[len(want[VMs]):])
	}
	id, wait, err := b.Begin(t.Context(), Call{Method: "ping", Decision: "allowed"})
	if err == nil {
		err = errors.Join(wait(t.Context()), b.End(id, Outcome{}))
	}
	if text := carried(t, b)[Calls]; err != nil || !strings.HasPrefix(text, want[Calls]+`{"id":4,`) {
		t.Errorf("the next call is %q, %v", text[len(want[Calls]):], err)
	}
}

func TestReceiveRubbish(t *testing.T) {
	const good = `{"id":1,"timestamp":"2026-01-02T03:04:05Z","event":"e"}` + "\n"
	for name, text := range map[string]string{
		"no JSON":    "x\n",
		"no object":  "[]\n",
		"two":        good[:len(good)-1] + good,
		"no end":     good[:len(good)-1],
		"no id":      `{"timestamp":"2026-01-02T03:04:05Z"}` + "\n",
		"id 0":       strings.Replace(good, `"id":1`, `"id":0`, 1),
		"id large":   strings.Replace(good, `"id":1`, `"id":9223372036854775807`, 1),
		"id text":    strings.Replace(good, `"id":1`, `"id":"1"`, 1),
		"same id":    good + good,
		"no time":    `{"id":1,"event":"e"}` + "\n",
		"column":     strings.Replace(good, "event", "other", 1),
		"number":     strings.Replace(good, `"e"`, "7", 1),
		"object":     strings.Replace(good, `"e"`, "{}", 1),
		"too long":   strings.Replace(good, `"e"`, `"`+strings.Repeat("e", maxCarried)+`"`, 1),
		"not closed": "{\n",
	} {
		if err := opened(t).Receive(t.Context(), VMs, strings.NewReader(text)); !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	db := opened(t)
	if err := db.Receive(t.Context(), "machine", strings.NewReader(good)); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if err := db.Receive(t.Context(), VMs, strings.NewReader(good)); err != nil {
		t.Error(err)
	}
	if err := db.Receive(t.Context(), VMs, strings.NewReader(good)); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a table is filled twice: %v", err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"id":1,"timestamp":"2026-01-02T03:04:05Z","event":"e"}` + "\n"))
	db, err := Open(filepath.Join(f.TempDir(), "session.db"), Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, line, err := db.remake(&tables[tableIndex(VMs)], text)
		if err != nil {
			return
		}
		again, same, err := db.remake(&tables[tableIndex(VMs)], bytes.TrimSuffix(line, []byte("\n")))
		if err != nil || again != id || !bytes.Equal(line, same) {
			t.Errorf("%q became %q, and that %q, %v", text, line, same, err)
		}
	})
}

// TestCarryEnds adds records while others are carried: they come too late.
func TestCarryEnds(t *testing.T) {
	db := opened(t)
	add := func(text string) {
		for _, table := range []string{VMs, Security} {
			if err := db.Append(t.Context(), table, Row{"event": "e", "text": text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("early")
	seen := 0
	err := db.Carry(t.Context(), func(name string, _ int64, r io.Reader) error {
		add("late")
		seen++
		text, err := io.ReadAll(r)
		if strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "early") {
			t.Errorf("%s: %s", name, text)
		}
		return err
	})
	if err != nil || seen != 2 {
		t.Errorf("%d tables, %v", seen, err)
	}
}
