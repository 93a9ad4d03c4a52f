package ports

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hutch/fs"
	"hutch/fs/folder"
	"hutch/fs/need"
	"hutch/fs/ninep"
	"hutch/relay/boot"
	"hutch/relay/port"
)

// A host serves a folder on port 5001.
type host struct {
	t       *testing.T
	work    string // the folder
	serving sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns []net.Conn
}

// top has the folder as its entry work.
type top struct {
	fs.Refuse
	work fs.Node
}

func (top) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{Name: "/", Mode: os.ModeDir | 0o555, Qid: 1}, nil
}

func (t top) Walk(_ context.Context, name string) (fs.Node, error) {
	if name != "work" {
		return nil, fs.ErrNotExist
	}
	return t.work, nil
}

// newHost serves a new folder, and mounts it twice, the second time read-only.
func newHost(t *testing.T) (h *host, mounted, kept string) {
	t.Helper()
	need.Root(t)
	need.FUSE(t)
	dir := t.TempDir()
	t.Setenv("HUTCH_PORTS", dir)
	h = &host{t: t, work: filepath.Join(dir, "work")}
	if err := os.Mkdir(h.work, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := folder.Open(h.work, "work")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", port.Path(port.Share))
	if err != nil {
		t.Fatal(err)
	}
	srv := &ninep.Server{Root: top{work: f.Root()}}
	h.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns = append(h.conns, c)
			h.mu.Unlock()
			h.serving.Go(func() { srv.ServeConn(context.Background(), c) })
		}
	})
	mounted, kept = filepath.Join(dir, "mounted"), filepath.Join(dir, "kept")
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Run(ctx, []boot.Share{{Name: "work", Path: mounted}, {Name: "work", Path: kept, ReadOnly: true}}, func() { close(ready) })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		l.Close()
		h.cut()
		h.serving.Wait()
		f.Close()
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return h, mounted, kept
}

// cut ends all connections.
func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.Close()
	}
	h.conns = nil
}

// A shell runs beside this process, which must not use its own mounts.
type shell struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func newShell(t *testing.T) *shell {
	t.Helper()
	cmd := exec.Command("sh")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	return &shell{t, in, bufio.NewReader(out)}
}

// run runs a line, which is to print want.
func (s *shell) run(line, want string) {
	s.t.Helper()
	fmt.Fprintf(s.in, "%s\necho; echo done-$?\n", line)
	var got strings.Builder
	for {
		part, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: %v after %q", line, err, got.String())
		}
		if strings.HasPrefix(part, "done-") {
			break
		}
		got.WriteString(part)
	}
	if text := strings.TrimSpace(got.String()); text != want {
		s.t.Errorf("%s: printed %q, want %q", line, text, want)
	}
}

func TestShare(t *testing.T) {
	h, dir, kept := newHost(t)
	s := newShell(t)
	s.run("cd "+dir, "")
	s.run("echo hello >f; cat f; stat -c %s f", "hello\n6")
	if text, err := os.ReadFile(filepath.Join(h.work, "f")); string(text) != "hello\n" {
		t.Errorf("on the host: %q, %v", text, err)
	}
	os.WriteFile(filepath.Join(h.work, "f"), []byte("from the host\n"), 0o644)
	s.run("cat f", "from the host")
	s.run("mkdir -p a/b; echo x >a/b/c; ln -s b a/l; ln a/b/c a/d; mv a z; cat z/l/c z/d; find . | sort | xargs", "x\nx\n. ./f ./z ./z/b ./z/b/c ./z/d ./z/l")
	s.run("chmod 600 f; touch -d @1000 f; stat -c '%a %Y' f", "600 1000")
	s.run("rm -r z; ls", "f")
	s.run("cat nothing", "cat: nothing: No such file or directory")
	s.run("cat "+kept+"/f; (echo x >"+kept+"/f) 2>&1 | grep -o Read-only", "from the host\nRead-only")
}

// TestShareMap maps a file to read and to write, as linkers and databases do.
func TestShareMap(t *testing.T) {
	h, dir, _ := newHost(t)
	if err := os.WriteFile(filepath.Join(h.work, "f"), make([]byte, 10000), 0o644); err != nil {
		t.Fatal(err)
	}
	python := need.Tool(t, "python3")
	s := newShell(t)
	s.run(python+` -c 'import mmap; f = open("`+dir+`/f", "r+b"); m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b"hello"; m.flush(); print(len(m))'`, "10000")
	if text, _ := os.ReadFile(filepath.Join(h.work, "f")); len(text) != 10000 || string(text[5000:5005]) != "hello" {
		t.Errorf("on the host: %d bytes, %q", len(text), text[5000:5005])
	}
}

// TestShareLost goes on with open files after the connection was lost.
func TestShareLost(t *testing.T) {
	h, dir, _ := newHost(t)
	s := newShell(t)
	s.run("cd "+dir+"; echo one >f; exec 3<>f; mv f g; mkdir d; mv g d/h", "")
	h.cut()
	s.run("cat <&3; echo two >&3; cat d/h", "one\none\ntwo")
	h.cut()
	s.run("mkdir e; rmdir e; echo three >d/h; cat d/h", "three")
	for range 20 {
		h.cut()
		s.run("echo text >i; mv i j; cat j; rm j; mkdir k; rmdir k; ls", "text\nd")
	}
}

// TestShareGone reads and describes a file that was removed while it was open.
func TestShareGone(t *testing.T) {
	_, dir, _ := newHost(t)
	s := newShell(t)
	s.run("cd "+dir+"; echo one >f; exec 3<f; rm f; stat -L -c %s /proc/self/fd/3; cat <&3", "4\none")
}
