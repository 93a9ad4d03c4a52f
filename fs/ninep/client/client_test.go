package client

import (
	"bufio"
	"context"
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
)

// serve serves a tree, and returns it with its address. At the test's end the
// tree must have no open handles.
func serve(t testing.TB, msize uint32) (*fstest.Tree, string) {
	t.Helper()
	tree := fstest.New()
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
	c, err := Dial(within(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// within returns a context that ends what hangs.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPaths(t *testing.T) {
	tree, addr := serve(t, 0)
	c := dial(t, addr)
	f, err := c.Create("store/a", os.O_WRONLY|os.O_EXCL, 0o640)
	ok(t, err)
	_, err = io.WriteString(f, "hello ")
	ok(t, err)
	_, err = io.WriteString(f, "world")
	ok(t, err)
	ok(t, f.Sync())
	st, err := f.Stat()
	ok(t, err)
	if st.Size != 11 || st.Mode != 0o640 || st.Name != "a" {
		t.Errorf("stat %+v", st)
	}
	ok(t, f.Close())
	if got, _ := tree.Stored("a"); got != "hello world" {
		t.Errorf("stored %q", got)
	}
	ok(t, c.Mkdir("/store/d", 0o755))
	ok(t, c.Rename("store/a", "store/d/b"))
	ok(t, c.Symlink("d/b", "store/s"))
	target, err := c.Readlink("store/s")
	if err != nil || target != "d/b" {
		t.Errorf("readlink %q, %v", target, err)
	}
	size, mode, mtime := uint64(5), os.FileMode(0o600), time.Unix(99, 5)
	ok(t, c.Set("store/d/b", fs.Change{Size: &size, Mode: &mode, Mtime: &mtime}))
	st, err = c.Stat("store/d/b")
	ok(t, err)
	if st.Size != 5 || st.Mode != 0o600 || !st.Mtime.Equal(mtime) {
		t.Errorf("after set: %+v", st)
	}
	list, err := c.List("store")
	ok(t, err)
	var got []string
	for _, st := range list {
		got = append(got, fmt.Sprint(st.Name, " ", st.Mode.Type()))
	}
	if s := strings.Join(got, ", "); s != "d d---------, s L---------" {
		t.Errorf("list %s", s)
	}
	ok(t, c.Remove("store/d/b"))
	ok(t, c.Remove("store/d"))
	ok(t, c.Remove("store/s"))
	entries, err := c.ReadDir("store")
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
	entries, err = c.ReadDir("many")
	if err != nil || len(entries) != 100 || entries[99].Name != "f99" {
		t.Errorf("many: %d entries, %v", len(entries), err)
	}
	st, err = c.Stat("/")
	if err != nil || !st.Mode.IsDir() || st.Name != "/" {
		t.Errorf("root %+v, %v", st, err)
	}
}

func TestLongPath(t *testing.T) {
	_, addr := serve(t, 0)
	c := dial(t, addr)
	path := ""
	for i := range 50 {
		dir := fmt.Sprint("d", i)
		path += "/" + dir
		ok(t, c.Mkdir("store"+path, 0o755))
	}
	if _, err := c.Stat("store" + path); err != nil {
		t.Error(err)
	}
	if _, err := c.Stat("store" + path + "/x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	_, addr := serve(t, 0)
	c := dial(t, addr)
	ok(t, c.Mkdir("store/d", 0o755))
	ok(t, c.Mkdir("store/d/e", 0o755))
	open := func(path string, flags int) error {
		f, err := c.Open(path, flags)
		if err == nil {
			f.Close()
		}
		return err
	}
	for _, test := range []struct {
		err  error
		want syscall.Errno
		text string
	}{
		{open("nothing", 0), syscall.ENOENT, "file does not exist: open nothing"},
		{open("deep/a/x/c", 0), syscall.ENOENT, "file does not exist: open deep/a/x/c"},
		{open("deep/a/b/c/leaf/x", 0), syscall.ENOTDIR, "not a directory: open deep/a/b/c/leaf/x"},
		{open("status", os.O_WRONLY), syscall.EACCES, "permission denied: open status"},
		{open("store", os.O_RDWR), syscall.EISDIR, "is a directory: open store"},
		{open("link", 0), syscall.ELOOP, "too many levels of symbolic links: open link"},
		{c.Remove("status"), syscall.EPERM, "operation not permitted: remove status"},
		{c.Remove("store/d"), syscall.ENOTEMPTY, "directory not empty: remove store/d"},
		{c.Mkdir("store/d", 0), syscall.EEXIST, "file already exists: mkdir store/d"},
		{c.Mkdir("/", 0), syscall.EINVAL, "invalid argument: mkdir /"},
	} {
		if fs.Errno(test.err) != test.want || !strings.HasPrefix(fs.Text(test.err), test.text) {
			t.Errorf("%v: %v, %q; want %v, %q", test.err, fs.Errno(test.err), fs.Text(test.err), test.want, test.text)
		}
	}
	if err := open("nothing", 0); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist and node.ErrNotExist", err)
	}
}

// TestLastError has two connections fail, and asks each for its own text.
func TestLastError(t *testing.T) {
	_, addr := serve(t, 0)
	a, b := dial(t, addr), dial(t, addr)
	want := func(c *Conn, want string) {
		t.Helper()
		if text, err := c.LastError(); text != want || err != nil {
			t.Errorf("last error %q, %v; want %q", text, err, want)
		}
	}
	want(a, "")
	a.Stat("nothing")
	b.Remove("status")
	b.Stat("status")
	want(a, "file does not exist: nothing")
	want(b, "operation not permitted")
	want(b, "operation not permitted")
	a.Open("store", os.O_RDWR)
	want(a, "is a directory")
	want(b, "operation not permitted")
	if _, err := a.cl.Attach("errs"); err == nil {
		t.Error("attached to nothing")
	}
}

// TestMsize has a server that takes small messages; the library would not
// mind its limit.
func TestMsize(t *testing.T) {
	tree, addr := serve(t, 4096)
	tree.SetBig(100_000)
	c := dial(t, addr)
	f, err := c.Create("store/f", os.O_RDWR, 0o600)
	ok(t, err)
	defer f.Close()
	want := strings.Repeat("0123456789", 10_000)
	n, err := io.WriteString(f, want)
	if n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	got, err := io.ReadAll(f)
	if string(got) != want || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	big, err := c.Open("big", 0)
	ok(t, err)
	defer big.Close()
	zeros, err := io.ReadAll(big)
	if len(zeros) != 100_000 || err != nil {
		t.Errorf("read %d zeros, %v", len(zeros), err)
	}
}

// TestScanner reads a stream through a buffer that asks for exactly what the
// last read did not fill.
func TestScanner(t *testing.T) {
	tree, addr := serve(t, 0)
	c := dial(t, addr)
	f, err := c.Open("events", 0)
	ok(t, err)
	defer f.Close()
	sc := bufio.NewScanner(f)
	for i := range 20 {
		line := strings.Repeat("x", i*50)
		tree.Push(line + "\n")
		if !sc.Scan() || sc.Text() != line {
			t.Fatalf("line %d: %q, %v", i, sc.Text(), sc.Err())
		}
	}
	tree.End()
	if sc.Scan() || sc.Err() != nil {
		t.Errorf("after the end: %q, %v", sc.Text(), sc.Err())
	}
	one := make([]byte, 1)
	tree.Push("y")
	n, err := f.ReadAt(one, 0)
	if n != 1 || err != nil {
		t.Error(n, err)
	}
}

// TestClose closes files with reads and writes blocked in them.
func TestClose(t *testing.T) {
	tree, addr := serve(t, 0)
	c := dial(t, addr)
	for range 50 {
		f, err := c.Open("wait", os.O_RDWR)
		ok(t, err)
		errs := make(chan error, 2)
		go func() {
			_, err := f.Read(make([]byte, 100))
			errs <- err
		}()
		go func() {
			_, err := f.Write([]byte("x"))
			errs <- err
		}()
		ok(t, tree.AwaitBlocked(within(t), 2))
		ok(t, f.Close())
		for range 2 {
			if err := <-errs; !errors.Is(err, os.ErrClosed) || fs.Errno(err) != syscall.EINTR {
				t.Errorf("blocked call: %v", err)
			}
		}
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, os.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	}
}

// TestCloseRace closes files while others read in a loop and open new ones:
// no read may hit a fid that is another's by now.
func TestCloseRace(t *testing.T) {
	_, addr := serve(t, 0)
	c := dial(t, addr)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				f, err := c.Open("status", 0)
				if err != nil {
					t.Error(err)
					return
				}
				var reads sync.WaitGroup
				reads.Go(func() {
					p := make([]byte, 100)
					for {
						n, err := f.ReadAt(p, 0)
						if errors.Is(err, os.ErrClosed) {
							return
						}
						if err != nil || string(p[:n]) != fstest.Status {
							t.Errorf("read %q, %v", p[:n], err)
							return
						}
					}
				})
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				reads.Wait()
			}
		})
	}
	wg.Wait()
}

// TestHangup ends connections from either side.
func TestHangup(t *testing.T) {
	tree := fstest.New()
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &ninep.Server{Root: tree.Root()}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeConn(ctx, theirs) }()
	c, err := New(ours)
	ok(t, err)
	f, err := c.Open("wait", 0)
	ok(t, err)
	blocked := make(chan error, 1)
	go func() {
		_, err := f.Read(make([]byte, 10))
		blocked <- err
	}()
	ok(t, tree.AwaitBlocked(within(t), 1))
	cancel()
	ok(t, <-ended)
	<-c.Done()
	if err := <-blocked; fs.Errno(err) != syscall.EIO {
		t.Errorf("blocked read: %v", err)
	}
	if _, err := c.Stat("status"); err == nil || c.Err() == nil {
		t.Errorf("stat: %v; %v", err, c.Err())
	}
	f.Close()
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
	if _, err := Dial(ctx, "unix!"+path); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
