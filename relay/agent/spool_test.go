package agent

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"hutch/fs"
)

// pour fills a spool with n bytes without waiting, and returns how many it took.
func pour(w *Spool, n int) int {
	took := 0
	for took < n {
		w.mu.Lock()
		p := w.room()
		w.mu.Unlock()
		if p == nil {
			break
		}
		p = p[:min(len(p), n-took)]
		for i := range p {
			p[i] = byte((w.end + int64(i)) % 251)
		}
		w.commit(len(p))
		took += len(p)
	}
	return took
}

// drain reads what there is from off on, and returns where it ended.
func drain(t *testing.T, r *spoolReader, off int64) int64 {
	t.Helper()
	p := make([]byte, 1000)
	for {
		n, err := r.ReadAt(t.Context(), p, off)
		if errors.Is(err, fs.ErrAgain) || n == 0 && err == nil {
			return off
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range p[:n] {
			if b != byte((off+int64(i))%251) {
				t.Fatalf("byte %d is wrong", off+int64(i))
			}
		}
		off += int64(n)
	}
}

func TestSpool(t *testing.T) {
	const limit = 100 << 10
	w := NewSpool(limit)
	if n := pour(w, 3*limit); n != limit {
		t.Fatalf("without a reader it took %d", n)
	}
	fast, slow := w.open(true), w.open(true)
	if end := drain(t, fast, 0); end != limit {
		t.Fatalf("read to %d", end)
	}
	if n := pour(w, limit); n != 0 {
		t.Fatalf("%d bytes went over a reader that has read nothing", n)
	}
	drain(t, slow, 0)
	n := pour(w, limit)
	if n == 0 || n > limit*3/4 {
		t.Fatalf("took %d", n)
	}
	if end := drain(t, slow, limit*3/4); end != int64(limit+n) { // a quarter was kept for such
		t.Fatalf("read to %d", end)
	}
	fast.Close()
	slow.Close()
	if n := pour(w, limit); n != 0 {
		t.Fatalf("after the last reader it took %d", n)
	}
	late := w.open(true)
	if _, err := late.ReadAt(t.Context(), make([]byte, 1), 0); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("what was dropped: %v", err)
	}
	w.setLimit(4 * limit)
	if n := pour(w, limit); n != limit {
		t.Errorf("with more room it took %d", n)
	}
	w.Finish()
	if held := w.held(); held > 4*limit {
		t.Errorf("holds %d", held)
	}
}

func TestSpoolGrowsWithOutput(t *testing.T) {
	w := NewSpool(defaultLimit)
	pour(w, 100)
	if c := cap(w.chunks[0]); c > minChunk {
		t.Errorf("100 bytes take %d", c)
	}
	pour(w, 1<<20)
	total := 0
	for _, c := range w.chunks {
		total += cap(c)
	}
	if total > 2<<20 {
		t.Errorf("1 MiB takes %d", total)
	}
}

// TestSpoolKeepsMost has a reader take all at once, while less and less room
// is left: what is dropped for the next bytes is no more than a part.
func TestSpoolKeepsMost(t *testing.T) {
	const limit = 64 << 10
	w := NewSpool(limit)
	r := w.open(true)
	for end := int64(0); end < 5*limit; end = drain(t, r, end) {
		pour(w, 997)
		if kept := w.end - w.base; kept < min(w.end, limit/2) {
			t.Fatalf("of %d bytes %d are kept", w.end, kept)
		}
	}
}

func TestAbandonedSpool(t *testing.T) {
	w := NewSpool(minLimit)
	pour(w, minLimit)
	go w.Abandon()
	if p := w.space(); p != nil {
		t.Error("there is room")
	}
	w.Finish()
	r := w.open(false)
	b, err := io.ReadAll(&file{Handle: r, ctx: t.Context()})
	if len(b) != minLimit || err != nil || !bytes.Equal(b[:3], []byte{0, 1, 2}) {
		t.Errorf("read %d, %v", len(b), err)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("12 (a) b) S 1 2 3 4", "TERM")
	f.Add("1 (", "64")
	f.Fuzz(func(t *testing.T, stat, signal string) {
		parseStat(1, stat)
		if s, err := parseSignal(signal); err == nil && s <= 0 {
			t.Errorf("%q is %d", signal, s)
		}
	})
}
