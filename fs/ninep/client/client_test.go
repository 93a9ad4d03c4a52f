package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/fstest"
	"hutch/fs/ninep"
	"hutch/fs/ninep/wire"
)

const limit = time.Minute

// serve serves a tree, and returns it with its address. At the test's end the
// tree must have no open handles.
func serve(t testing.TB, msize uint32) (*fstest.Tree, string) {
	t.Helper()
	tree := fstest.New(t.TempDir())
	addr := "unix!" + filepath.Join(t.TempDir(), "9p")
	l, err := ninep.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := &ninep.Server{Root: tree.Root(), MaxMsize: msize}
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if open, _ := tree.Handles(); open != 0 {
			t.Errorf("%d handles open at the end", open)
		}
	})
	return tree, addr
}

func dial(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := attach(within(t), addr, limit)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// attach attaches to the tree at a unix socket.
func attach(ctx context.Context, addr string, limit time.Duration) (*Conn, error) {
	c, err := net.Dial("unix", strings.TrimPrefix(addr, "unix!"))
	if err != nil {
		return nil, err
	}
	return New(ctx, c, limit)
}

// within returns a context that ends what hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, c *Conn, path string, flags int) *Fid {
	t.Helper()
	f, err := c.Open(within(t), wire.Path(path), flags)
	ok(t, err)
	return f
}

// readAll reads a file to its end, so much at a time.
func readAll(t testing.TB, f *Fid, size int) string {
	t.Helper()
	var text []byte
	for p := make([]byte, size); ; {
		n, err := f.ReadAt(within(t), Stream, p, int64(len(text)))
		ok(t, err)
		if n == 0 {
			return string(text)
		}
		text = append(text, p[:n]...)
	}
}

func TestPaths(t *testing.T) {
	tree, addr := serve(t, 0)
	c, ctx := dial(t, addr), within(t)
	at := func(path string, do func(*Fid) error) {
		t.Helper()
		ok(t, c.At(ctx, wire.Path(path), do))
	}
	f, err := c.Walk(ctx, wire.Path("store"))
	ok(t, err)
	ok(t, f.Create(ctx, "a", os.O_WRONLY|os.O_EXCL, 0o640))
	for off, part := range map[int64]string{0: "hello ", 6: "world"} {
		_, err = f.Write(ctx, Quick, []byte(part), off)
		ok(t, err)
	}
	ok(t, f.Sync(ctx))
	st, err := f.Stat(ctx)
	ok(t, err)
	if st.Size != 11 || st.Mode != 0o640 || st.Name != "a" {
		t.Errorf("stat %+v", st)
	}
	ok(t, f.Close(ctx))
	if got, _ := tree.Stored("a"); got != "hello world" {
		t.Errorf("stored %q", got)
	}
	at("store", func(dir *Fid) error { return dir.Mkdir(ctx, "d", 0o755) })
	at("store", func(dir *Fid) error {
		return c.At(ctx, wire.Path("store/d"), func(to *Fid) error { return dir.Rename(ctx, "a", to, "b") })
	})
	at("store", func(dir *Fid) error { return dir.Symlink(ctx, "s", "d/b") })
	at("store/s", func(f *Fid) error {
		target, err := f.Readlink(ctx)
		if target != "d/b" {
			t.Errorf("readlink %q", target)
		}
		return err
	})
	size, mode, mtime := uint64(5), os.FileMode(0o600), time.Unix(99, 5)
	at("store/d/b", func(f *Fid) error { return f.Set(ctx, fs.Change{Size: &size, Mode: &mode, Mtime: &mtime}) })
	st, err = c.Stat(ctx, wire.Path("store/d/b"))
	ok(t, err)
	if st.Size != 5 || st.Mode != 0o600 || !st.Mtime.Equal(mtime) {
		t.Errorf("after set: %+v", st)
	}
	list, err := c.List(ctx, wire.Path("store"))
	ok(t, err)
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprint(e.Name, " ", e.Mode))
	}
	if s := strings.Join(got, ", "); s != "d d---------, s L---------" {
		t.Errorf("list %s", s)
	}
	at("store/d", func(dir *Fid) error { return dir.Remove(ctx, "b", false) })
	at("store", func(dir *Fid) error { return dir.Remove(ctx, "d", true) })
	at("store", func(dir *Fid) error { return dir.Remove(ctx, "s", false) })
	entries, err := c.List(ctx, wire.Path("store"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	entries, err = c.List(ctx, wire.Path("many"))
	if err != nil || len(entries) != 100 || entries[99].Name != "f99" {
		t.Errorf("many: %d entries, %v", len(entries), err)
	}
	st, err = c.Stat(ctx, wire.Path("/"))
	if err != nil || !st.Mode.IsDir() || st.Name != "/" {
		t.Errorf("root %+v, %v", st, err)
	}
	at("/", func(f *Fid) error { _, err := f.Space(ctx); return err })
}

func TestLongPath(t *testing.T) {
	_, addr := serve(t, 0)
	c, ctx := dial(t, addr), within(t)
	path := wire.Path("store")
	for i := range 50 {
		dir := fmt.Sprint("d", i)
		ok(t, c.At(ctx, path, func(f *Fid) error { return f.Mkdir(ctx, dir, 0o755) }))
		path = append(path, dir)
	}
	if _, err := c.Stat(ctx, path); err != nil {
		t.Error(err)
	}
	if _, err := c.Stat(ctx, append(path, "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	_, addr := serve(t, 0)
	c, ctx := dial(t, addr), within(t)
	at := func(path string, do func(*Fid) error) error { return c.At(ctx, wire.Path(path), do) }
	mkdir := func(path, name string) error {
		return at(path, func(f *Fid) error { return f.Mkdir(ctx, name, 0o755) })
	}
	remove := func(path, name string, dir bool) error {
		return at(path, func(f *Fid) error { return f.Remove(ctx, name, dir) })
	}
	open := func(path string, flags int) error {
		f, err := c.Open(ctx, wire.Path(path), flags)
		if err == nil {
			f.Clunk()
		}
		return err
	}
	ok(t, mkdir("store", "d"))
	ok(t, mkdir("store/d", "e"))
	for _, test := range []struct {
		err, want error
	}{
		{open("nothing", 0), fs.ErrNotExist},
		{open("deep/a/x/c", 0), fs.ErrNotExist},
		{open("status", os.O_WRONLY), fs.ErrPermission},
		{open("store", os.O_RDWR), fs.ErrIsDir},
		{open("link", 0), syscall.ELOOP},
		{remove("/", "status", false), fs.ErrNotPermitted},
		{remove("store", "d", true), fs.ErrNotEmpty},
		{mkdir("store", "d"), fs.ErrExist},
		{mkdir("store", "/"), fs.ErrInvalid},
	} {
		if test.err != test.want {
			t.Errorf("%v; want %v", test.err, test.want)
		}
	}
}

// TestMsize has a server that takes small messages.
func TestMsize(t *testing.T) {
	tree, addr := serve(t, 4096)
	tree.SetBig(100_000)
	c, ctx := dial(t, addr), within(t)
	f, err := c.Walk(ctx, wire.Path("store"))
	ok(t, err)
	defer f.Clunk()
	ok(t, f.Create(ctx, "f", os.O_RDWR, 0o600))
	want := strings.Repeat("0123456789", 10_000)
	n, err := f.Write(ctx, Quick, []byte(want), 0)
	if n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	if got := readAll(t, f, 64<<10); got != want {
		t.Errorf("read %d bytes", len(got))
	}
	big := open(t, c, "big", os.O_RDONLY)
	defer big.Clunk()
	if zeros := readAll(t, big, 64<<10); len(zeros) != 100_000 {
		t.Errorf("read %d zeros", len(zeros))
	}
}

// TestContinuation reads a stream by reads that ask for exactly what the last
// one did not fill, from a server that speaks our version, from one that takes
// us for Linux' client, and from one that does not know of versions.
func TestContinuation(t *testing.T) {
	for name, answer := range map[string]string{"ours": wire.HutchVersion, "Linux'": wire.LinuxVersion, "unknown": "unknown"} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.New(t.TempDir())
			ours, theirs := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- (&ninep.Server{Root: tree.Root()}).ServeConn(t.Context(), theirs) }()
			if answer != wire.HutchVersion {
				ours = older(t, ours, answer)
			}
			c, err := New(within(t), ours, limit)
			ok(t, err)
			if c.plain != (answer == wire.HutchVersion) {
				t.Errorf("plain: %v", c.plain)
			}
			f := open(t, c, "events", os.O_RDONLY)
			line := "one\n"
			for want, p := strings.Repeat(line, 20), make([]byte, 100); len(want) > 0; {
				tree.Push(line)
				n, err := f.ReadAt(within(t), Stream, p, int64(20*len(line)-len(want)))
				if err != nil || n == 0 || !strings.HasPrefix(want, string(p[:n])) {
					t.Fatalf("read %q, %v; %d bytes are left", p[:n], err, len(want))
				}
				want, p = want[n:], p[n:]
			}
			tree.End()
			if n, err := f.ReadAt(within(t), Stream, make([]byte, 20), int64(20*len(line))); n != 0 || err != nil {
				t.Errorf("after the end: %d, %v", n, err)
			}
			f.Clunk()
			c.Close()
			if err := <-served; !errors.Is(err, io.ErrClosedPipe) { // the last answer may have met the end
				ok(t, err)
			}
		})
	}
}

// older stands between a client and a server, and has that speak Linux'
// dialect alone: it answers the first Tversion with a version.
func older(t *testing.T, server net.Conn, version string) net.Conn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); server.Close() })
	read := func() []byte {
		head := make([]byte, wire.HeadLen)
		io.ReadFull(theirs, head)
		size := binary.LittleEndian.Uint32(head)
		body := make([]byte, size-wire.HeadLen)
		io.ReadFull(theirs, body)
		return append(head, body...)
	}
	go func() {
		defer theirs.Close()
		defer server.Close()
		req := read()
		if version == "unknown" {
			theirs.Write(wire.Seal(wire.PutString(wire.Put32(make([]byte, wire.HeadLen), 8192), version), wire.Rversion, wire.NoTag))
			if got := string(read()[wire.HeadLen+6:]); got != wire.LinuxVersion {
				t.Errorf("then it asks for %q", got)
			}
		}
		server.Write(wire.Seal(wire.PutString(req[:wire.HeadLen+4], wire.LinuxVersion), wire.Tversion, wire.NoTag))
		go func() {
			io.Copy(server, theirs)
			server.Close()
		}()
		io.Copy(theirs, server)
	}()
	return ours
}

// TestCancel ends the contexts of blocked reads and writes.
func TestCancel(t *testing.T) {
	tree, addr := serve(t, 0)
	c := dial(t, addr)
	for range 50 {
		f := open(t, c, "wait", os.O_RDWR)
		ctx, cancel := context.WithCancel(within(t))
		errs := make(chan error, 2)
		go func() {
			_, err := f.ReadAt(ctx, Stream, make([]byte, 100), 0)
			errs <- err
		}()
		go func() {
			_, err := f.WriteAt(ctx, Stream, []byte("x"), 0)
			errs <- err
		}()
		ok(t, tree.AwaitBlocked(within(t), 2))
		cancel()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) || fs.Errno(err) != syscall.EINTR {
				t.Errorf("blocked call: %v", err)
			}
		}
		ok(t, f.Close(within(t)))
	}
	if _, err := c.Stat(within(t), wire.Path("status")); err != nil {
		t.Error(err)
	}
}

// TestLate has a server that does not answer in time what is quick.
func TestLate(t *testing.T) {
	_, addr := serve(t, 0)
	c, err := attach(within(t), addr, 50*time.Millisecond)
	ok(t, err)
	f := open(t, c, "wait", os.O_RDONLY)
	if _, err := f.ReadAt(within(t), Quick, make([]byte, 1), 0); err != ErrLate {
		t.Error(err)
	}
	<-c.Down()
	if _, err := c.Stat(within(t), wire.Path("status")); err != ErrLost {
		t.Error(err)
	}
	c.Close()
}

// TestHangup ends connections from either side.
func TestHangup(t *testing.T) {
	tree := fstest.New(t.TempDir())
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &ninep.Server{Root: tree.Root()}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeConn(ctx, theirs) }()
	c, err := New(within(t), ours, limit)
	ok(t, err)
	f := open(t, c, "wait", os.O_RDONLY)
	blocked := make(chan error, 1)
	go func() {
		_, err := f.ReadAt(within(t), Stream, make([]byte, 10), 0)
		blocked <- err
	}()
	ok(t, tree.AwaitBlocked(within(t), 1))
	cancel()
	ok(t, <-ended)
	<-c.Down()
	if err := <-blocked; fs.Errno(err) != syscall.EIO {
		t.Errorf("blocked read: %v", err)
	}
	if _, err := c.Stat(within(t), wire.Path("status")); err == nil || c.Ended() == nil {
		t.Errorf("stat: %v; %v", err, c.Ended())
	}
	f.Clunk()
	c.Close()
	c.Close()
	if open, _ := tree.Handles(); open != 0 {
		t.Errorf("%d handles open", open)
	}
}

// TestDialContext dials a server that never answers.
func TestDialContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	ok(t, err)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadFull(c, make([]byte, 10))
		cancel()
		io.Copy(io.Discard, c)
	}()
	if _, err := attach(ctx, "unix!"+path, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFidsAreNotShared gives fids back while others are made: no read may hit
// one that is another's by now.
func TestFidsAreNotShared(t *testing.T) {
	_, addr := serve(t, 0)
	c := dial(t, addr)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 200 {
				text, err := c.Text(within(t), Quick, wire.Path("status"))
				if err != nil || text != fstest.Status {
					t.Errorf("read %q, %v", text, err)
					return
				}
			}
		})
	}
	work.Wait()
}
