package guest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
)

// A counting is a connection that counts the messages sent over it.
type counting struct {
	net.Conn
	sent *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// listLong does what ls -l does.
func listLong(t *testing.T, d fs.Node) map[string]fs.Stat {
	t.Helper()
	list, err := d.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]fs.Stat)
	for _, e := range list {
		n, err := d.Walk(t.Context(), e.Name)
		if err != nil {
			t.Fatal(err)
		}
		st, err := n.Stat(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode.Type() != e.Mode.Type() || st.Qid != e.Qid {
			t.Fatalf("%s is %v, was listed as %v", e.Name, st, e)
		}
		if st.Mode.Type() == os.ModeSymlink {
			if to, err := n.Readlink(t.Context()); to != "f0" || err != nil {
				t.Fatalf("%s leads to %q, %v", e.Name, to, err)
			}
		}
		all[e.Name] = st
	}
	return all
}

// A directory is told of whole: its files cost no round trips of their own.
func TestListingIsWhole(t *testing.T) {
	const files = 3000
	t.Cleanup(guest.Believe(time.Hour)) // also by a machine that is slow
	dir := t.TempDir()
	for i := range files {
		name := filepath.Join(dir, fmt.Sprint("f", i))
		if i%10 == 9 {
			os.Symlink("f0", name)
		} else {
			os.WriteFile(name, make([]byte, i), 0o640)
		}
	}
	p := newPair(t)
	here, there := sockets(t)
	var sent atomic.Int64
	p.serving.Go(func() { p.a.Serve(p.ctx, there) })
	p.g.Attach(counting{here, &sent})
	d := walk(t, p.g.Root(), dir)
	before := sent.Load()
	all := listLong(t, d)
	if len(all) != files || all["f2998"].Size != 2998 || all["f2998"].Mode != 0o640 {
		t.Errorf("%d files, %+v", len(all), all["f2998"])
	}
	if n := sent.Load() - before; n > files/10 {
		t.Errorf("%d messages for %d files", n, files)
	}
}

// What the host changes itself it sees at once, what the guest does a while
// later.
func TestChangesAfterListing(t *testing.T) {
	p := newPair(t)
	ctx, dir := t.Context(), t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644)
	}
	d := walk(t, p.g.Root(), dir)
	is := func(name string, size uint64, want error) {
		t.Helper()
		n, err := d.Walk(ctx, name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err != nil {
			return
		}
		if st, err := n.Stat(ctx); st.Size != size || err != nil {
			t.Errorf("%s: size %d, want %d, %v", name, st.Size, size, err)
		}
	}
	listLong(t, d)
	if err := d.Remove(ctx, "a", false); err != nil {
		t.Fatal(err)
	}
	is("a", 0, fs.ErrNotExist)
	if err := d.Rename(ctx, "b", d, "c"); err != nil {
		t.Fatal(err)
	}
	is("b", 0, fs.ErrNotExist)
	is("c", 3, nil)
	n, err := d.Walk(ctx, "d")
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Open(ctx, os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt(ctx, []byte("longer"), 0); err != nil {
		t.Fatal(err)
	}
	h.Close()
	is("d", 6, nil)
	listLong(t, d)
	size := uint64(1)
	if err := n.Set(ctx, fs.Change{Size: &size}); err != nil {
		t.Fatal(err)
	}
	is("d", 1, nil)
	listLong(t, d)
	os.WriteFile(filepath.Join(dir, "d"), []byte("of the guest"), 0o644)
	for begin := time.Now(); ; {
		n, err := d.Walk(ctx, "d")
		if err != nil {
			t.Fatal(err)
		}
		if st, err := n.Stat(ctx); err != nil || time.Since(begin) > time.Minute {
			t.Fatalf("size %d, %v", st.Size, err)
		} else if st.Size == 12 {
			break
		}
	}
}

// Who opens a pipe of the guest on a mount would wait for another end of it.
func TestPipesOfGuests(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Fatal(err)
	}
	d := walk(t, p.g.Root(), dir)
	if st := listLong(t, d)["pipe"]; st.Mode.Type() != os.ModeSocket {
		t.Errorf("mode %v", st.Mode)
	}
	if n, err := walk(t, p.g.Root(), dir+"/pipe").Open(t.Context(), os.O_RDONLY); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("opened: %v, %v", n, err)
	}
}

// A changing is a connection during whose messages something is changed.
type changing struct {
	net.Conn
	g *guest.Guest
}

func (c changing) Write(b []byte) (int, error) {
	c.g.Change()
	return c.Conn.Write(b)
}

// A directory that is listed again in vain is not taken for one that still is,
// and of a guest that is gone nothing is kept.
func TestSightsGo(t *testing.T) {
	p := newPair(t)
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, "a"), nil, 0o644)
	listLong(t, walk(t, p.g.Root(), dir))
	d := walk(t, p.g.Root(), dir)
	p.g.Age()
	p.there.Close()
	here, there := sockets(t)
	p.serving.Go(func() { p.a.Serve(p.ctx, there) })
	p.g.Attach(changing{here, p.g})
	if _, err := d.Walk(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, again, _ := p.g.InSight(); again != 0 {
		t.Errorf("%d directories are being listed again", again)
	}
	p.g.Close()
	if dirs, _, purge := p.g.InSight(); dirs != 0 || purge {
		t.Errorf("%d directories are in sight of a guest that is gone, %v", dirs, purge)
	}
}
