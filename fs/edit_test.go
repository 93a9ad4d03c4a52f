package fs

import (
	"context"
	"errors"
	"os"
	"testing"
)

// stored is a tree of one stored file, f.
type stored struct {
	text  string
	times int
	busy  error
}

func (s *stored) file(t *testing.T) Node {
	rows := []Row[*stored]{{
		Name: "f", Perm: 0o600,
		Read:  func(c Call[*stored]) (string, error) { return c.At.text, nil },
		Store: func(c Call[*stored], text string) error { c.At.text, c.At.times = text, c.At.times+1; return nil },
		Ready: func(c Call[*stored]) error { return c.At.busy },
	}}
	tree := New(rows, s, Options[*stored]{Ident: func(*stored) uint64 { return 0 }})
	n, err := tree.Root().Walk(context.Background(), "f")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTruncateAndClose(t *testing.T) {
	ctx, s := context.Background(), &stored{text: "old"}
	f := s.file(t)
	if err := f.Set(ctx, Change{Size: new(uint64)}); err != nil {
		t.Fatal(err)
	}
	h, err := f.Open(ctx, os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	h.Flush(ctx) // as a shell does that moves the descriptor
	if s.times != 0 {
		t.Errorf("a flush with nothing written stored %q", s.text)
	}
	h.Close()
	if s.text != "" || s.times != 1 {
		t.Errorf("stored %d times, now %q", s.times, s.text)
	}
}

// The kernel tells of a close when the next may have the file open already.
func TestLateClose(t *testing.T) {
	ctx, s := context.Background(), &stored{text: "the old text"}
	f := s.file(t)
	edit := func(text string) Handle {
		h, err := f.Open(ctx, os.O_WRONLY)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Set(ctx, Change{Size: new(uint64)}); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			h.WriteAt(ctx, []byte(text), 0)
			h.Flush(ctx)
		}
		return h
	}
	first := edit("the first text")
	second := edit("")
	first.Close()
	if s.times != 1 {
		t.Errorf("a late close stored %q", s.text)
	}
	second.WriteAt(ctx, []byte("second"), 0)
	second.Flush(ctx)
	third := edit("")
	second.Close()
	third.Close()
	if s.text != "" || s.times != 3 {
		t.Errorf("stored %d times, now %q", s.times, s.text)
	}
	edit("fourth").Close()
	if s.text != "fourth" || s.times != 4 {
		t.Errorf("stored %d times, now %q", s.times, s.text)
	}
}

func TestNotReady(t *testing.T) {
	ctx, s := context.Background(), &stored{text: "old", busy: ErrBusy}
	f := s.file(t)
	if err := f.Set(ctx, Change{Size: new(uint64)}); !errors.Is(err, ErrBusy) {
		t.Errorf("truncated: %v", err)
	}
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC} {
		if _, err := f.Open(ctx, flags); !errors.Is(err, ErrBusy) {
			t.Errorf("opened with %#x: %v", flags, err)
		}
	}
	if _, err := f.Open(ctx, os.O_RDONLY); err != nil || s.text != "old" {
		t.Errorf("opened to read: %v, text %q", err, s.text)
	}
}
