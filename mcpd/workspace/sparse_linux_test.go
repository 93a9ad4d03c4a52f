package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A counted context ends after it was asked so often: before each read.
type counted struct {
	context.Context
	left int
}

var errTooOften = errors.New("too many reads")

func (c *counted) Err() error {
	if c.left--; c.left < 0 {
		return errTooOften
	}
	return c.Context.Err()
}

// A file with holes is as it was, holes too: filled with zeros it would take
// the host's disk.
func TestRevertSparse(t *testing.T) {
	const tib = 1 << 40
	work, a := t.TempDir(), &album{dir: t.TempDir(), names: []string{"then"}}
	put(t, a.dir, "then/f", "begin")
	f, err := os.OpenFile(filepath.Join(a.dir, "then/f"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("end"), tib/2)
	if err := errors.Join(err, f.Truncate(tib), f.Close()); err != nil {
		t.Fatal(err)
	}
	var r answer
	ctx := &counted{t.Context(), 1000}
	if err := json.Unmarshal(New(work, a.snapshots()).Call(ctx, "snapshots_revert", json.RawMessage(`{"path":"f"}`)), &r); err != nil || r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	g, err := os.Open(filepath.Join(work, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	p := make([]byte, 10)
	for off, want := range map[int64]string{0: "begin\x00\x00\x00\x00\x00", tib/2 - 1: "\x00end\x00\x00\x00\x00\x00\x00", tib - 10: string(make([]byte, 10))} {
		if n, err := g.ReadAt(p, off); string(p[:n]) != want || err != nil {
			t.Errorf("at %d is %q, %v", off, p[:n], err)
		}
	}
	if st, err := g.Stat(); err != nil || st.Size() != tib || st.Sys().(*syscall.Stat_t).Blocks > 1<<11 {
		t.Errorf("the file is %+v, %v", st, err)
	}
}
