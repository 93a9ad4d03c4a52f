package agent

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"hutch/fs"
)

// A guest is an agent and its tree, as one connection would see it.
type guest struct {
	t    testing.TB
	a    *Agent
	from *session
	root fs.Node
}

func newGuest(t testing.TB) *guest {
	t.Helper()
	a, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	g := &guest{t: t, a: a}
	g.connect()
	return g
}

// connect makes a new connection, of which there is nothing but whether it
// is lost.
func (g *guest) connect() {
	here, there := net.Pipe()
	g.t.Cleanup(func() { here.Close(); there.Close() })
	g.from = &session{Conn: here}
	g.root = g.a.tree(g.from)
}

func (g *guest) walk(path string) (fs.Node, error) {
	n := g.root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		var err error
		if n, err = n.Walk(g.t.Context(), name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// open opens a file; it is closed with the test unless that happened before.
func (g *guest) open(path string, flags int) *file {
	g.t.Helper()
	n, err := g.walk(path)
	if err != nil {
		g.t.Fatalf("walk %s: %v", path, err)
	}
	h, err := n.Open(g.t.Context(), flags)
	if err != nil {
		g.t.Fatalf("open %s: %v", path, err)
	}
	return &file{Handle: h, ctx: context.WithoutCancel(g.t.Context())}
}

// A file is an open file with a place.
type file struct {
	fs.Handle
	ctx context.Context
	off int64
}

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(f.ctx, p, f.off)
	f.off += int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (f *file) Write(p []byte) (int, error) { return f.WriteAt(f.ctx, p, 0) }

func (g *guest) read(path string) string {
	g.t.Helper()
	f := g.open(path, os.O_RDONLY)
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		g.t.Fatalf("read %s: %v", path, err)
	}
	return string(b)
}

func (g *guest) write(path, text string) error {
	g.t.Helper()
	f := g.open(path, os.O_WRONLY)
	defer f.Close()
	_, err := f.Write([]byte(text))
	return err
}

// exec makes a command and writes lines to its ctl.
func (g *guest) exec(name string, lines ...string) {
	g.t.Helper()
	g.mkdir(name)
	for _, l := range lines {
		if err := g.write("exec/"+name+"/ctl", l+"\n"); err != nil {
			g.t.Fatalf("%s: %v", l, err)
		}
	}
}

func (g *guest) mkdir(name string) {
	g.t.Helper()
	dir, err := g.walk("exec")
	if err != nil {
		g.t.Fatal(err)
	}
	if _, err := dir.Mkdir(g.t.Context(), name, 0o755); err != nil {
		g.t.Fatalf("mkdir %s: %v", name, err)
	}
}

func (g *guest) rmdir(name string) error {
	dir, err := g.walk("exec")
	if err != nil {
		return err
	}
	return dir.Remove(g.t.Context(), name, true)
}

// status returns the first word of wait.
func (g *guest) status(name string) string {
	g.t.Helper()
	word, _, _ := strings.Cut(g.read("exec/"+name+"/wait"), " ")
	return word
}

func (g *guest) want(path, text string) {
	g.t.Helper()
	if got := g.read(path); got != text {
		g.t.Errorf("%s: got %q, want %q", path, got, text)
	}
}
