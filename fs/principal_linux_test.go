package fs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/fuse"
	"hutch/fs/need"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/ninep/wire"
	"hutch/fs/scripttest"
)

// serveEnv has the test serve a tree on that folder, over 9P and, if it can,
// FUSE: a mount is never served by who uses it.
const serveEnv = "HUTCH_TEST_PRINCIPAL"

func TestMain(m *testing.M) {
	dir := os.Getenv(serveEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveGuarded(dir, os.Getenv(serveEnv+"_MOUNT") != ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type (
	where struct {
		*objects
		name string
	}
	asked = fs.Call[where]
)

// objects are the directories of made, and the last error.
type objects struct {
	mu    sync.Mutex // guards both
	names []string
	err   string
}

// guarded is a tree with rows that refuse: shut refuses all, mine all but the
// owner of the service.
func guarded() fs.Node {
	shut := func(asked) error { return errors.New("not yours") }
	mine := func(c asked) error {
		if c.Who.UID != uint32(os.Geteuid()) {
			return fmt.Errorf("user %d is not the owner", c.Who.UID)
		}
		return nil
	}
	text := func(name string, of func(asked) string) fs.Row[where] {
		return fs.Row[where]{Name: name, Perm: 0o444, Read: func(c asked) (string, error) { return of(c) + "\n", nil }}
	}
	who := func(c asked) string { return fmt.Sprint(c.Who.UID) }
	hello := func(asked) string { return "hello" }
	sub := func(c asked) (fs.Node, error) {
		return fs.New([]fs.Row[where]{text("who", who)}, where{}, fs.Options[where]{Ident: func(where) uint64 { return 1 << 30 }}).Root(), nil
	}
	rows := []fs.Row[where]{
		text("who", who),
		text("user", func(c asked) string { return c.Who.User }),
		{Name: "err", Perm: 0o444, Read: func(c asked) (string, error) {
			c.At.mu.Lock()
			defer c.At.mu.Unlock()
			return c.At.err, nil
		}},
		{Name: "mine", Perm: 0o555, Allow: mine, Rows: []fs.Row[where]{text("f", hello)}},
		{Name: "shut", Perm: 0o555, Allow: shut, Rows: []fs.Row[where]{
			text("f", hello),
			{Name: "deep", Perm: 0o555, Rows: []fs.Row[where]{text("f", hello)}},
		}},
		{Name: "locked", Perm: 0o666, Allow: shut, Read: func(asked) (string, error) { return "hello", nil }, Write: func(asked, string) error { return nil }},
		{Name: "made", Perm: 0o755,
			Names: func(c asked) ([]string, error) {
				c.At.mu.Lock()
				defer c.At.mu.Unlock()
				return slices.Clone(c.At.names), nil
			},
			Enter: func(c asked, name string) (where, error) {
				c.At.mu.Lock()
				defer c.At.mu.Unlock()
				if !slices.Contains(c.At.names, name) {
					return where{}, fs.ErrNotExist
				}
				return where{c.At.objects, name}, nil
			},
			Make: func(c asked, name string) error {
				c.At.mu.Lock()
				defer c.At.mu.Unlock()
				c.At.names = append(c.At.names, name)
				return nil
			},
			Drop: func(c asked, name string) error {
				c.At.mu.Lock()
				defer c.At.mu.Unlock()
				c.At.names = slices.DeleteFunc(c.At.names, func(n string) bool { return n == name })
				return nil
			},
			Each: []fs.Row[where]{{Name: "NAME", Perm: 0o555, Rows: []fs.Row[where]{text("f", func(c asked) string { return c.At.name })}, Allow: func(c asked) error {
				if c.At.name == "kept" {
					return shut(c)
				}
				return nil
			}}},
		},
		{Name: "mounted", Perm: 0o555, Mount: sub},
		{Name: "hidden", Perm: 0o555, Mount: sub, Allow: shut},
	}
	return fs.New(rows, where{&objects{names: []string{"free", "kept"}}, ""}, fs.Options[where]{
		Ident: func(w where) uint64 {
			if w.name == "" {
				return 0
			}
			return uint64(w.name[0])
		},
		Failed: func(w where, err error) {
			if w.objects == nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.err = fs.Text(err) + "\n"
		},
	}).Root()
}

// serveGuarded serves until its standard input ends. Anyone may connect.
func serveGuarded(dir string, mount bool) error {
	l, err := ninep.Listen("unix!" + filepath.Join(dir, "9p"))
	if err != nil {
		return err
	}
	os.Chmod(filepath.Join(dir, "9p"), 0o777)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	root := guarded()
	served := make(chan error, 1)
	go func() {
		served <- (&ninep.Server{Root: root, Allow: func(net.Conn) error { return nil }}).Serve(ctx, l)
	}()
	if mount {
		m, err := fuse.Mount(filepath.Join(dir, "mnt"), root, fuse.Options{Name: "hutch", AllowOther: os.Geteuid() == 0})
		if err != nil {
			return err
		}
		defer m.Close()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	cancel()
	<-served
	return nil
}

// startGuarded starts this test as a server, until the test ends.
func startGuarded(t *testing.T, mount bool) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hutch-fs-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+dir)
	if mount {
		cmd.Env = append(cmd.Env, serveEnv+"_MOUNT=1")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
		os.RemoveAll(dir)
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("server: %q, %v", line, err)
	}
	return dir
}

func TestPrincipal(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) scripttest.Frontend{
		"direct": func(t *testing.T) scripttest.Frontend { return scripttest.Direct(guarded()) },
		"linux": func(t *testing.T) scripttest.Frontend {
			conn, err := net.Dial("unix", filepath.Join(startGuarded(t, false), "9p"))
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.New(t.Context(), conn, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return scripttest.Linux(c)
		},
		"plan9": func(t *testing.T) scripttest.Frontend {
			return scripttest.Plan9("unix!" + filepath.Join(startGuarded(t, false), "9p"))
		},
		"fuse": func(t *testing.T) scripttest.Frontend {
			need.FUSE(t)
			return scripttest.Mounted(filepath.Join(startGuarded(t, true), "mnt"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.Run(t, "testdata/principal.txt", []string{"$UID", fmt.Sprint(os.Geteuid())}, start)
		})
	}
}

// dialAs connects to a socket as another user: the kernel asks the thread.
func dialAs(t *testing.T, uid int, path string) net.Conn {
	t.Helper()
	const same = ^uintptr(0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
		t.Fatal(errno)
	}
	c, err := net.Dial("unix", path)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same); errno != 0 {
		panic(errno)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two users of one service: what one may is no leave for the other, in
// whatever order they come.
func TestTwoPrincipals(t *testing.T) {
	need.Root(t)
	need.FUSE(t)
	const other = 65534
	dir := startGuarded(t, true)
	mnt := filepath.Join(dir, "mnt")
	c, err := client.New(t.Context(), dialAs(t, other, filepath.Join(dir, "9p")), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func(name string) (string, error) {
		return c.Text(t.Context(), client.Quick, wire.Path(name))
	}
	cat := func(uid uint32, name string) string {
		cmd := exec.Command("cat", filepath.Join(mnt, name))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for range 3 {
		if got, err := read("who"); got != "65534\n" || err != nil {
			t.Errorf("9P: %q %v", got, err)
		}
		if got, err := read("mine/f"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("9P: what is not for it: %q %v", got, err)
		}
		if got := cat(0, "mine/f") + cat(0, "who"); got != "hello\n0\n" {
			t.Errorf("FUSE, the owner: %q", got)
		}
		if got := cat(other, "who"); got != "65534\n" {
			t.Errorf("FUSE: %q", got)
		}
		if got := cat(other, "mine/f"); !strings.Contains(got, "ermission denied") {
			t.Errorf("FUSE: what is not for it: %q", got)
		}
	}
}

// A client says for whom it asks.
func TestPrincipalUser(t *testing.T) {
	f := scripttest.Plan9("unix!" + filepath.Join(startGuarded(t, false), "9p"))
	scripttest.Run(t, "testdata/user.txt", nil, func(*testing.T) scripttest.Frontend { return f })
}
