package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
	"hutch/fs/fstest"
	"hutch/fs/ninep"
)

// maxConns is few: commands that need more connections than one could wait for
// each other for ever.
const maxConns = 2

// serve serves a tree, and returns it with a connection to it, which ends with
// ctx. At the test's end the tree must have no open handles.
func serve(t *testing.T, ctx context.Context) (*fstest.Tree, *tree) {
	t.Helper()
	served := fstest.New(t.TempDir())
	*address = "unix!" + filepath.Join(t.TempDir(), "9p")
	l, err := ninep.Listen(*address)
	if err != nil {
		t.Fatal(err)
	}
	serving, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&ninep.Server{Root: served.Root(), MaxConns: maxConns}).Serve(serving, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if open, _ := served.Handles(); open != 0 {
			t.Errorf("%d handles open at the end", open)
		}
	})
	c, err := dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return served, c
}

// What is there and cannot be written is told of, not what cannot be made in its place.
func TestCreateRefused(t *testing.T) {
	_, c := serve(t, t.Context())
	if _, err := c.create("status", 0o600); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("status: %v", err)
	}
}

func TestForgetSecrets(t *testing.T) {
	_, c := serve(t, t.Context())
	err := forgetSecrets(t.Context(), c, []string{"a"})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "hutch secret ls") {
		t.Error(err)
	}
}

// A folder is told by what it is of, whatever that is called.
func TestThings(t *testing.T) {
	_, c := serve(t, t.Context())
	for _, thing := range []string{"a/b", "100%", "plain"} {
		if err := c.mkdir("store/"+fs.FileName(thing), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := things(c, "store"); !slices.Equal(got, []string{"100%", "a/b", "plain"}) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPaths(t *testing.T) {
	served, c := serve(t, t.Context())
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := c.create("store/a", 0o640)
	ok(err)
	_, err = io.WriteString(f, "hello ")
	ok(err)
	_, err = io.WriteString(f, "world")
	ok(err)
	ok(f.Close())
	if got, _ := served.Stored("a"); got != "hello world" {
		t.Errorf("stored %q", got)
	}
	ok(c.mkdir("/store/d", 0o755))
	ok(c.symlink("d/b", "store/s"))
	target, err := c.readlink("store/s")
	if err != nil || target != "d/b" {
		t.Errorf("readlink %q, %v", target, err)
	}
	ok(c.chmod("store/a", 0o600))
	mode, err := c.stat("store/a")
	if err != nil || mode != 0o600 {
		t.Errorf("after chmod: %v, %v", mode, err)
	}
	list, err := c.readDir("store")
	ok(err)
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprint(e.Name, " ", e.Mode))
	}
	if s := strings.Join(got, ", "); s != "a ----------, d d---------, s L---------" {
		t.Errorf("list %s", s)
	}
	for _, name := range []string{"store/a", "store/d", "store/s"} {
		ok(c.remove(name))
	}
	list, err = c.readDir("store")
	if err != nil || len(list) != 0 {
		t.Errorf("left %v, %v", list, err)
	}
	list, err = c.readDir("many")
	if err != nil || len(list) != 100 || list[99].Name != "f99" {
		t.Errorf("many: %d entries, %v", len(list), err)
	}
	mode, err = c.stat("/")
	if err != nil || !mode.IsDir() {
		t.Errorf("root %v, %v", mode, err)
	}
	name := "store"
	for i := range 50 {
		name += fmt.Sprint("/d", i)
		ok(c.mkdir(name, 0o755))
	}
	if _, err := c.stat(name); err != nil {
		t.Error(err)
	}
	if _, err := c.stat(name + "/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestErrors has calls fail: their text is the service's, where that has more
// to say than the kind.
func TestErrors(t *testing.T) {
	_, c := serve(t, t.Context())
	if err := errors.Join(c.mkdir("store/d", 0o755), c.mkdir("store/d/e", 0o755)); err != nil {
		t.Fatal(err)
	}
	open := func(name string, flags int) error {
		f, err := c.open(name, flags)
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
		{open("nothing", 0), syscall.ENOENT, "file does not exist: nothing"},
		{open("deep/a/x/c", 0), syscall.ENOENT, "file does not exist: x"},
		{open("deep/a/b/c/leaf/x", 0), syscall.ENOTDIR, `not a directory: walk in "leaf"`},
		{open("status", os.O_WRONLY), syscall.EACCES, "permission denied: status"},
		{open("store", os.O_RDWR), syscall.EISDIR, "is a directory: open store"},
		{open("link", 0), syscall.ELOOP, "too many levels of symbolic links: open link"},
		{c.remove("status"), syscall.EPERM, "operation not permitted: remove status"},
		{c.remove("store/d"), syscall.ENOTEMPTY, "directory not empty: d"},
		{c.mkdir("store/d", 0), syscall.EEXIST, "file already exists: d"},
		{c.mkdir("/", 0), syscall.EINVAL, `invalid argument: bad file name "/"`},
	} {
		if fs.Errno(test.err) != test.want || !strings.HasPrefix(fs.Text(test.err), test.text) {
			t.Errorf("%v: %v, %q; want %v, %q", test.err, fs.Errno(test.err), fs.Text(test.err), test.want, test.text)
		}
	}
}

// TestLastError has two connections fail, and asks each for its own text.
func TestLastError(t *testing.T) {
	_, a := serve(t, t.Context())
	b, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	want := func(c *tree, want string) {
		t.Helper()
		if text, err := c.lastError(); text != want || err != nil {
			t.Errorf("last error %q, %v; want %q", text, err, want)
		}
	}
	want(a, "")
	a.stat("nothing")
	b.remove("status")
	b.stat("status")
	want(a, "file does not exist: nothing")
	want(b, "operation not permitted")
	want(b, "operation not permitted")
	a.open("store", os.O_RDWR)
	want(a, "is a directory")
	want(b, "operation not permitted")
	if _, err := a.Attach("errs"); err == nil {
		t.Error("attached to nothing")
	}
}

// TestStreams reads a stream to its end, though Linux' client would be told
// that it is there after each part; and ends with its context one that blocks,
// and nothing else.
func TestStreams(t *testing.T) {
	served, c := serve(t, t.Context())
	parts, part := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		err := copyFile(t.Context(), c, part, "events", os.O_RDONLY)
		part.Close()
		copied <- err
	}()
	for range 20 {
		served.Push("line\n")
		if _, err := io.ReadFull(parts, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	served.End()
	if rest, err := io.ReadAll(parts); len(rest) > 0 || err != nil {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { copied <- copyFile(ctx, c, io.Discard, "wait", os.O_RDONLY) }()
	if err := served.AwaitBlocked(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-copied; err != context.Canceled {
		t.Error(err)
	}
	if _, err := c.stat("status"); err != nil {
		t.Error(err)
	}
}

// TestStreamsTogether reads more streams at once than there may be connections.
func TestStreamsTogether(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	served, c := serve(t, t.Context())
	copied := make(chan error, 1)
	go func() {
		copied <- copyStreams(ctx, c, "", os.O_RDONLY, map[string]io.Writer{"events": io.Discard, "wait": io.Discard})
	}()
	if err := served.AwaitBlocked(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-copied; !errors.Is(err, context.Canceled) || errors.Is(err, errLost) {
		t.Error(err)
	}
	if _, err := c.stat("status"); err != nil {
		t.Error(err)
	}
}

// TestHangup ends the connection of a read that blocks.
func TestHangup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	served, c := serve(t, ctx)
	copied := make(chan error, 1)
	go func() { copied <- copyFile(context.Background(), c, io.Discard, "wait", os.O_RDONLY) }()
	if err := served.AwaitBlocked(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-copied; !errors.Is(err, errLost) || fs.Errno(err) != syscall.EIO {
		t.Error(err)
	}
	if _, err := c.stat("status"); !errors.Is(err, errLost) {
		t.Error(err)
	}
}
