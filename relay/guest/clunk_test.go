package guest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"hutch/fs"
)

// TestFidsGoBackOnce closes files twice, removes execs twice, and looks at
// what the guest is asked: never to give back a fid that is not there, and
// never to make one that is.
func TestFidsGoBackOnce(t *testing.T) {
	g := newGuest(t)
	var mu sync.Mutex // guards the fids
	fids := map[uint32]bool{}
	answers := honest()
	walk, clunk := answers[110], answers[120]
	answers[110] = func(req []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if to := le.Uint32(req[4:]); fids[to] {
			t.Errorf("walk to fid %d, which is there", to)
		} else {
			fids[to] = true
		}
		return walk(req)
	}
	answers[120] = func(req []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		fid := le.Uint32(req)
		if !fids[fid] {
			t.Errorf("clunk of fid %d, which is not there", fid)
		}
		delete(fids, fid)
		return clunk(req)
	}
	newLiar(t, g, answers)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 8 {
				e, err := g.MakeExec(t.Context(), fmt.Sprintf("%d.%d", i, j))
				if err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"stdin", "stdout"} {
					h, err := e.Open(t.Context(), name, os.O_RDWR)
					if err != nil {
						t.Error(err)
						return
					}
					h.Close()
					h.Close()
				}
				e.Ctl(t.Context(), "kill")
				e.Remove(t.Context())
				e.Remove(t.Context())
				if err := e.Ctl(t.Context(), "kill"); err == nil {
					t.Error("told a removed exec")
				}
			}
		})
	}
	all.Wait()
}

// TestRefusedClunk has the guest refuse to give fids back: their numbers are
// not used again.
func TestRefusedClunk(t *testing.T) {
	g := newGuest(t)
	fids := map[uint32]bool{}
	answers := honest()
	walk := answers[110]
	answers[110] = func(req []byte) []byte {
		if to := le.Uint32(req[4:]); fids[to] {
			t.Errorf("walk to fid %d, which the guest did not give back", to)
		} else {
			fids[to] = true
		}
		return walk(req)
	}
	l := newLiar(t, g, answers)
	l.refuse.Store(120)
	for range 20 {
		if _, err := g.Exec(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParallelExecs runs many commands at once, each of which must end as it
// does and print what it does.
func TestParallelExecs(t *testing.T) {
	p := newPair(t)
	var running sync.WaitGroup
	for i := range 16 {
		running.Go(func() {
			for j := range 25 {
				name := fmt.Sprintf("%d.%d", i, j)
				e, err := p.g.MakeExec(t.Context(), name)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if err := e.Ctl(t.Context(), "exec echo "+name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if got := all(t, e, "stdout"); got != name+"\n" {
					t.Errorf("%s printed %q", name, got)
				}
				// As two who close its last file at once do.
				var removing sync.WaitGroup
				for range 2 {
					removing.Go(func() { e.Remove(t.Context()) })
				}
				removing.Wait()
			}
		})
	}
	running.Wait()
}

// TestCloseWhileReading closes files while others read them in a loop and open
// new ones: no read may hit a fid that is another's by now.
func TestCloseWhileReading(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	var work sync.WaitGroup
	for i := range 4 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
		n := walk(t, p.g.Root(), path)
		work.Go(func() {
			for range 100 {
				h, err := n.Open(t.Context(), os.O_RDONLY)
				if err != nil {
					t.Error(err)
					return
				}
				var reads sync.WaitGroup
				reads.Go(func() {
					b := make([]byte, 1000)
					for {
						n, err := h.ReadAt(t.Context(), b, 0)
						if errors.Is(err, fs.ErrNotExist) { // it was closed
							return
						}
						if err != nil || string(b[:n]) != path {
							t.Errorf("read %q, %v", b[:n], err)
							return
						}
					}
				})
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				reads.Wait()
				if err := h.Close(); err != nil {
					t.Errorf("second close: %v", err)
				}
			}
		})
	}
	work.Wait()
}
