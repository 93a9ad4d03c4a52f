package fs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func readSome(t *testing.T, h Handle, off int64) string {
	t.Helper()
	p := make([]byte, 1<<16)
	n, err := h.ReadAt(t.Context(), p, off)
	if err != nil {
		t.Fatal(err)
	}
	return string(p[:n])
}

func TestLogEndsOrBlocks(t *testing.T) {
	l := NewLog(1 << 20)
	end, follow, nonblock := l.Open(false, false), l.Open(true, false), l.Open(true, true)
	if got := readSome(t, end, 0); got != "" {
		t.Errorf("empty log reads %q", got)
	}
	if _, err := nonblock.ReadAt(t.Context(), make([]byte, 1), 0); !Is(err, ErrAgain) {
		t.Errorf("nonblocking read at the end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		_, err := follow.ReadAt(ctx, make([]byte, 10), 0)
		cancelled <- err
	}()
	cancel()
	if err := <-cancelled; err != context.Canceled {
		t.Errorf("cancelled read: %v", err)
	}
	l.Append([]byte("one"))
	for _, h := range []Handle{end, follow, nonblock} {
		if got := readSome(t, h, 0); got != "one\n" {
			t.Errorf("read %q", got)
		}
	}
}

func TestLogFollowersGetAll(t *testing.T) {
	const n = 2000
	l := NewLog(1 << 20)
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			h := l.Open(true, false)
			var got strings.Builder
			p := make([]byte, 100)
			for got.Len() < want.Len() {
				k, err := h.ReadAt(t.Context(), p, int64(got.Len()))
				if err != nil {
					t.Error(err)
					return
				}
				got.Write(p[:k])
			}
			if got.String() != want.String() {
				t.Error("a follower got something else")
			}
		})
	}
	for i := range n {
		l.Append(fmt.Appendf(nil, "line %d", i))
	}
	readers.Wait()
}

func TestLogKeepsItsLimit(t *testing.T) {
	l := NewLog(100)
	late := l.Open(false, false)
	for i := range 100 {
		l.Append(fmt.Appendf(nil, "line %d", i))
	}
	got := readSome(t, late, 0)
	if !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "line 99\n") || len(got) > 300 {
		t.Errorf("kept %q", got)
	}
	if l.Size() != 10*7+90*8 {
		t.Errorf("size %d", l.Size())
	}
	if more := readSome(t, late, int64(len(got))); more != "" {
		t.Errorf("read on at its end: %q", more)
	}
}
