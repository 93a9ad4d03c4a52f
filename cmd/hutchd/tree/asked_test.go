package tree

import (
	"context"
	"errors"
	"os"
	"testing"

	"hutch/fs"
	"hutch/mcpd/timeline"
)

func get(t *testing.T, h fs.Handle, off int64, want string) {
	t.Helper()
	p := make([]byte, 64)
	if n, err := h.ReadAt(t.Context(), p, off); err != nil || string(p[:n]) != want {
		t.Errorf("read at %d: %q, %v; want %q", off, p[:n], err, want)
	}
}

func put(t *testing.T, h fs.Handle, text string) {
	t.Helper()
	if _, err := h.WriteAt(t.Context(), []byte(text), 0); err != nil {
		t.Errorf("write %q: %v", text, err)
	}
}

// Answers begin wherever they are read first, follow one another until then, and
// are kept until the next question.
func TestAnswers(t *testing.T) {
	s := &Server{}
	h, err := s.openRPC(os.O_RDWR, func(_ context.Context, line string) (string, error) {
		if line == "bad" {
			return "", fs.ErrInvalid
		}
		return "<" + line + ">", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	get(t, h, 0, "")
	put(t, h, "a\nb")
	get(t, h, 3, "<a><b>")
	get(t, h, 6, "<b>")
	get(t, h, 9, "")
	get(t, h, 0, "<a><b>")
	put(t, h, "c\n")
	get(t, h, 100, "<c>")
	if _, err := h.WriteAt(t.Context(), []byte("bad\n"), 0); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	get(t, h, 104, "")
	put(t, h, "d\n")
	if n := s.kept.Load(); n != 3 {
		t.Errorf("%d bytes are kept", n)
	}
	s.kept.Add(maxKept)
	if _, err := h.WriteAt(t.Context(), []byte("e\n"), 0); !errors.Is(err, fs.ErrNoSpace) {
		t.Error(err)
	}
	h.Close()
	if n := s.kept.Load(); n != maxKept {
		t.Errorf("%d bytes are kept after the close", n-maxKept)
	}
}

// A text is made when it is read first after what narrows it.
func TestNarrowed(t *testing.T) {
	made := 0
	h, err := new(Server).openNarrowed(os.O_RDWR, timeline.Few, func(_ context.Context, q timeline.Query) (string, error) {
		made++
		return "all but a few"[:min(13, 3+q.Limit)], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, h, "limit 4\nlimit 5")
	get(t, h, 7, "all but ")
	get(t, h, 11, "but ")
	put(t, h, "limit 10\n")
	get(t, h, 20, "all but a few")
	if made != 2 {
		t.Errorf("made %d times", made)
	}
}

// A close ends what is asked, and waits for it.
func TestAskedCloses(t *testing.T) {
	asks, ended := make(chan struct{}), false
	h, err := new(Server).openRPC(os.O_RDWR, func(ctx context.Context, _ string) (string, error) {
		close(asks)
		<-ctx.Done()
		ended = true
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	put(t, h, "question without an end")
	go h.ReadAt(context.Background(), make([]byte, 1), 0)
	<-asks
	h.Close()
	if !ended {
		t.Error("it goes on")
	}
}
