package fuse

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/fs/folder"
	"hutch/fs/fstest"
	"hutch/fs/inotify"
	"hutch/fs/need"
)

// A process must not use its own mount, so each test runs a second copy of
// the test binary that serves, and tells it what to do a line at a time.

const serveEnv = "HUTCH_FUSE_TEST_SERVE" // the mount point, a host folder, for whom, and whose links are in it

// keepEnv has all kept, as if nothing had changed for long, and after too many
// news nothing for so long as it says.
const keepEnv = "HUTCH_FUSE_TEST_KEEP"

func TestMain(m *testing.M) {
	if arg := os.Getenv(serveEnv); arg != "" {
		args := strings.Split(arg, ":")
		if err := serve(args[0], args[1], args[2] == "all", args[3]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// withWork is a tree whose root has a folder of the host as work.
type withWork struct {
	fs.Node
	work fs.Node
}

func (w withWork) Walk(ctx context.Context, name string) (fs.Node, error) {
	if name == "work" {
		return w.work, nil
	}
	return w.Node.Walk(ctx, name)
}

func (w withWork) List(ctx context.Context) ([]fs.Entry, error) {
	list, err := w.Node.List(ctx)
	if err != nil {
		return nil, err
	}
	st, err := w.work.Stat(ctx)
	list = append(list, fs.Entry{Name: "work", Mode: st.Mode, Qid: st.Qid})
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, err
}

// guestLinks are those of a guest whose / is the tree's store.
var guestLinks = &fs.Links{At: "/workspace", Places: []fs.Place{{There: "/workspace", Here: "."}, {There: "/", Here: "../store"}}}

// serve is the whole of the serving process. It ends with its input.
func serve(dir, work string, all bool, links string) error {
	letGo = time.Minute // a program that ends may take its time
	store := filepath.Join(filepath.Dir(work), "store")
	if err := os.MkdirAll(store, 0o755); err != nil {
		return err
	}
	tree := fstest.New(store)
	root := tree.Root()
	if work != "" {
		f, err := folder.Open(work, "work")
		if err != nil {
			return err
		}
		if links != "" {
			f.Links = guestLinks
		}
		root = withWork{root, f.Root()}
	}
	if d, err := time.ParseDuration(os.Getenv(keepEnv)); err == nil {
		unchanged, opaque = -time.Hour, d
	}
	var counters Counters
	logs := log.New(os.Stderr, "", 0)
	s, err := Mount(dir, root, Options{Log: logs, Counters: &counters, AllowOther: all, RawLinks: links == "raw", Debug: os.Getenv("HUTCH_FUSE_TEST_DEBUG") != ""})
	answer(err)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		verb, arg, _ := strings.Cut(in.Text(), " ")
		n, _ := strconv.Atoi(arg)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		switch verb {
		case "push":
			tree.Push(arg + "\n")
			answer(nil)
		case "blocked":
			answer(tree.AwaitBlocked(ctx, n))
		case "handles":
			answer(tree.AwaitHandles(ctx, n))
		case "messages":
			answer(nil, tree.Messages()...)
		case "open":
			answer(awaitOpen(ctx, &counters, int64(n)))
		case "interrupted":
			answer(nil, fmt.Sprint(counters.Interrupted.Load()))
		case "passes":
			answer(nil, fmt.Sprint(os.Geteuid() == 0 && s.raw.KernelSettings().Flags64()&gofuse.CAP_PASSTHROUGH != 0))
		case "child":
			child := exec.Command("sleep", arg)
			err := child.Start()
			answer(err, fmt.Sprint(child.Process.Pid))
		case "release":
			tree.Release()
			answer(nil)
		case "linger":
			lingering, err = time.ParseDuration(arg)
			answer(err)
		case "letgo":
			letGo, err = time.ParseDuration(arg)
			answer(err)
		case "settle":
			for !s.Settle() {
			}
			answer(nil)
		case "kept":
			answer(nil, s.watch.all()...)
		case "told":
			answer(nil, s.watch.whenTold(arg))
		case "overflow":
			s.watch.tell(inotify.Event{Mask: unix.IN_Q_OVERFLOW})
			answer(nil)
		case "close":
			answer(s.Close())
		case "wait":
			s.Wait()
			answer(nil)
		}
		cancel()
	}
	return s.Close()
}

// awaitOpen waits until n files are open. The kernel tells of a close after
// the program that closed has gone on.
func awaitOpen(ctx context.Context, c *Counters, n int64) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for c.Open.Load() != n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d files are open", c.Open.Load())
		}
	}
	return nil
}

type reply struct {
	Err  string
	Text []string
}

func answer(err error, text ...string) {
	r := reply{Text: text}
	if err != nil {
		r.Err = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(r)
}

// A served is a mount served by another process.
type served struct {
	t     testing.TB
	dir   string   // the mount point
	work  string   // the folder of the host that is served as work
	as    []string // the command that runs others as the mount's user
	cwd   string   // of the server
	whom  string   // "all" lets other users in
	links string   // whose are those in work: "guest", or "raw" for a guest's as they are
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	up    bool
	env   []string // more of the server's environment
	after func()   // called when the guest changed something; nil: nothing is
}

// serving starts a server.
func serving(t testing.TB) *served {
	t.Helper()
	need.FUSE(t)
	s := folders(t)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// folders returns what is not served yet.
func folders(t testing.TB) *served {
	t.Helper()
	base := t.TempDir()
	s := &served{t: t, dir: filepath.Join(base, "mnt"), work: filepath.Join(base, "work"), cwd: "/"}
	for _, d := range []string{s.dir, s.work, filepath.Join(base, "store")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *served) start() error {
	s.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	if s.as != nil { // a user who may not walk to the test binary
		exe = copyOf(s.t, exe)
	}
	s.cmd = s.command(exe, "-test.run=^$")
	s.cmd.Env = append(append(os.Environ(), s.env...), serveEnv+"="+s.dir+":"+s.work+":"+s.whom+":"+s.links, "GORACE=atexit_sleep_ms=0")
	s.cmd.Dir = s.cwd
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.out = json.NewDecoder(out)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.end)
	var r reply
	if err := s.out.Decode(&r); err != nil {
		return err
	}
	s.up = r.Err == ""
	if !s.up {
		return errors.New(r.Err)
	}
	return nil
}

// again returns a new server for the same mount point and folder.
func (s *served) again() *served {
	return &served{t: s.t, dir: s.dir, work: s.work, as: s.as, cwd: s.cwd}
}

// walkable lets every user walk to dir.
func walkable(dir string) {
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		os.Chmod(dir, 0o755)
	}
}

func copyOf(t testing.TB, exe string) string {
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	walkable(dir)
	to := filepath.Join(dir, "serve")
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// end stops the server and removes what a killed one left.
func (s *served) end() {
	s.in.Close()
	late := time.AfterFunc(time.Minute, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	s.cmd.Wait()
	if s.up && s.cmd.ProcessState.ExitCode() > 0 {
		s.t.Errorf("server: %v", s.cmd.ProcessState)
	}
	if m, _ := mountedOn(s.dir); m != nil && s.up {
		unix.Unmount(s.dir, unix.MNT_DETACH)
	}
}

// tell has the server do something and returns its answer.
func (s *served) tell(format string, args ...any) (string, error) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", args...); err != nil {
		s.t.Fatal(err)
	}
	var r reply
	if err := s.out.Decode(&r); err != nil {
		s.t.Fatal(err)
	}
	if r.Err != "" {
		return "", fmt.Errorf("%s", r.Err)
	}
	return strings.Join(r.Text, ""), nil
}

// do is tell for what must not fail.
func (s *served) do(format string, args ...any) string {
	s.t.Helper()
	text, err := s.tell(format, args...)
	if err != nil {
		s.t.Fatalf(format+": %v", append(args, err)...)
	}
	return text
}

func (s *served) path(name string) string { return filepath.Join(s.dir, name) }

// command returns a program run by the mount's user.
func (s *served) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	line := append(append(append([]string{}, s.as...), need.Tool(s.t, name)), args...)
	c := exec.CommandContext(context.WithoutCancel(s.t.Context()), line[0], line[1:]...)
	c.WaitDelay = time.Minute
	return c
}

// sh runs a script at the top of the mount.
func (s *served) sh(shell, script string) (string, error) {
	s.t.Helper()
	then := " && "
	if shell == "rc" {
		then = "; "
	}
	out, err := s.command(shell, "-c", "cd "+s.dir+then+script).CombinedOutput()
	return string(out), err
}
