package folder

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
)

const swaps = 5000 // how often readers look while a folder changes

// swapped opens a folder in which "file" and "sub" are one thing, then another,
// as fast as a guest can, until the test ends.
func swapped(t *testing.T) *Folder {
	dir := t.TempDir()
	f, err := Open(dir, "work")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				swap(dir)
			}
		}
	})
	t.Cleanup(func() {
		close(done)
		swapping.Wait()
		f.Close()
	})
	return f
}

func swap(dir string) {
	sub, link := filepath.Join(dir, "sub"), filepath.Join(dir, "link")
	os.Mkdir(sub, 0o700)
	for _, at := range []string{filepath.Join(dir, "file"), filepath.Join(sub, "file")} {
		os.WriteFile(at, []byte("text"), 0o600)
		os.Symlink("/nowhere", link)
		os.Rename(link, at)
		os.Remove(at)
		os.Mkdir(at, 0o700)
		os.Remove(at)
		os.WriteFile(at, []byte("text"), 0o600)
		os.Remove(at)
	}
	os.RemoveAll(sub)
	os.Symlink(dir, sub)
	os.Remove(sub)
}

// TestSwap opens and makes files while others come in their place: who gets an
// error gets no handle.
func TestSwap(t *testing.T) {
	f := swapped(t)
	check := func(h fs.Handle, err error) {
		switch {
		case err == nil:
			h.ReadAt(t.Context(), make([]byte, 10), 0)
			h.Close()
		case h != nil:
			t.Errorf("%v, and a handle: %T", err, h)
		}
	}
	still, err := Open(f.dir, "still")
	if err != nil {
		t.Fatal(err)
	}
	defer still.Close()
	still.ReadOnly = true
	var readers sync.WaitGroup
	for _, root := range []fs.Node{f.Root(), still.Root()} {
		readers.Go(func() {
			for i := 0; i < swaps && !t.Failed(); i++ {
				dir := root
				if sub, err := root.Walk(t.Context(), "sub"); i%2 == 0 && err == nil {
					dir = sub
				}
				if n, err := dir.Walk(t.Context(), "file"); err == nil {
					check(n.Open(t.Context(), os.O_RDONLY))
				}
				if i%8 == 0 {
					_, h, err := dir.Create(t.Context(), "file", os.O_RDWR, 0o600)
					check(h, err)
				}
			}
		})
	}
	readers.Wait()
}

// TestSwapServed does the same over 9P.
func TestSwapServed(t *testing.T) {
	f := swapped(t)
	ours, theirs := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { (&ninep.Server{Root: f.Root()}).ServeConn(t.Context(), theirs) })
	defer serving.Wait()
	c, err := client.New(t.Context(), ours, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var readers sync.WaitGroup
	for _, path := range []string{"file", "sub/file"} {
		readers.Go(func() {
			for range swaps {
				if h, err := c.Open(t.Context(), wire.Path(path), os.O_RDONLY); err == nil {
					h.Clunk()
				}
			}
		})
	}
	readers.Wait()
	if err := c.Ended(); err != nil {
		t.Error(err)
	}
}
