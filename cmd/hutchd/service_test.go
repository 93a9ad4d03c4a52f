//go:build linux

// These tests start hutchd and use it as people do: over its socket, on its
// mount, and by the hutch command.
package main_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
	"hutch/profiles/clients/clientstest"
)

// limit bounds what a test waits for; nothing is measured by it.
const limit = time.Minute

// TestMain has four tests run side by side, if no flag says how many: they wait for
// each other's machines and servers more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	os.Exit(m.Run())
}

// A service is a hutchd on a folder of its own.
type service struct {
	t     testing.TB
	bin   string
	dir   string // all of it is here: state, socket, mount, log
	addr  string
	mount string              // the mount point, or none
	as    func(cmd *exec.Cmd) // makes a command one of the service's user
	ns    string              // process in whose mount namespace the user is
	cmd   *exec.Cmd           // hutchd, if it runs
	ended chan struct{}       // closed when it has ended, with err
	err   error
	c     *remote
	last  func() // done when hutchd has ended for good
}

// atHome gives the service a home of its own, with clients' files in it.
func (s *service) atHome() string {
	s.t.Helper()
	home := filepath.Join(s.dir, "home")
	if err := clientstest.Lay(home); err != nil {
		s.t.Fatal(err)
	}
	s.as = func(cmd *exec.Cmd) {
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, "HOME="+home)
	}
	return home
}

// serve starts a service that goes with the test, and leaves nothing behind.
func serve(t testing.TB, mounted bool, args ...string) *service {
	t.Helper()
	s := newService(t, mounted)
	s.start(args...)
	return s
}

func newService(t testing.TB, mounted bool) *service {
	t.Helper()
	if mounted {
		need.FUSE(t)
	}
	dir, err := os.MkdirTemp("", "hutchd-")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, bin: need.Programs(t), dir: dir, addr: "unix!" + filepath.Join(dir, "9p"), mount: "none", as: func(*exec.Cmd) {}, ns: "self", last: func() {}}
	if mounted {
		s.mount = filepath.Join(dir, "mnt")
	}
	need.Sweep(t, dir, s.groupName())
	t.Cleanup(s.remove)
	return s
}

func (s *service) start(args ...string) {
	s.t.Helper()
	if err := s.tryStart(args...); err != nil {
		s.t.Fatalf("hutchd: %v\n%s", err, s.log())
	}
	drivers := s.read("drivers")
	if !strings.HasPrefix(drivers, "gvisor ok") {
		need.Missing(s.t, drivers)
	}
}

func (s *service) tryStart(args ...string) error {
	args = append([]string{"-state", s.state(), "-listen", s.addr, "-mount", s.mount}, args...)
	cmd := exec.Command(filepath.Join(s.bin, "hutchd"), args...)
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), "npm_config_registry="+npm().URL)
	s.as(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	addr := s.addr
	if strings.HasSuffix(addr, "!0") { // the system chooses a port
		addr, _, _ = strings.Cut(strings.TrimPrefix(line, "ready "), " ")
	}
	if err != nil || line != "ready "+addr+" "+s.mount+"\n" {
		cmd.Process.Kill()
		return errors.Join(fmt.Errorf("printed %q", line), cmd.Wait())
	}
	s.addr = addr
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		io.Copy(io.Discard, lines)
		s.err = cmd.Wait()
		close(ended)
	}()
	return nil
}

func (s *service) state() string           { return filepath.Join(s.dir, "state") }
func (s *service) path(name string) string { return filepath.Join(s.mount, name) }
func (s *service) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text)
}

// signal ends hutchd by sig, and returns what Wait says of it.
func (s *service) signal(sig syscall.Signal) error {
	s.t.Helper()
	if s.c != nil {
		s.c.Close()
		s.c = nil
	}
	s.cmd.Process.Signal(sig)
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.ended
		s.t.Errorf("hutchd does not end by %v:\n%s", sig, s.log())
	}
	s.cmd = nil
	return s.err
}

// remove ends the service with every VM, and checks that nothing is left.
func (s *service) remove() {
	defer os.RemoveAll(s.dir)
	if s.cmd == nil { // a test killed it; its VMs may live
		s.tryStart()
	}
	if s.cmd != nil {
		if err := s.tryWrite("ctl", "purge all\n"); err != nil {
			s.t.Errorf("purge: %v", err)
		}
		if err := s.signal(syscall.SIGTERM); err != nil {
			s.t.Errorf("hutchd: %v", err)
		}
	}
	s.last()
	if left := s.left(); left != "" {
		s.t.Errorf("left behind: %s", left)
	}
	if s.t.Failed() {
		s.t.Logf("log of hutchd:\n%s", s.log())
	}
}

// left tells what there is of the service's folder in mounts and processes.
func (s *service) left() string {
	var left []string
	mounts, _ := os.ReadFile("/proc/" + s.ns + "/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, s.dir+"/") {
			left = append(left, "mount "+line)
		}
	}
	for pid, cmd := range processes(s.dir + "/") {
		left = append(left, fmt.Sprintf("process %d %s", pid, cmd))
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "9p")); err == nil {
		left = append(left, "socket "+s.addr)
	}
	return strings.Join(left, "\n")
}

// processes returns those that name what in their arguments.
func processes(what string) map[int]string {
	found := map[int]string{}
	lists, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lists {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		text, _ := os.ReadFile(name)
		if pid != os.Getpid() && strings.Contains(string(text), what) {
			found[pid] = strings.ReplaceAll(string(text), "\x00", " ")
		}
	}
	return found
}

// client returns a connection to the service, kept until it ends.
func (s *service) client() *remote {
	s.t.Helper()
	if s.c == nil {
		s.c = s.dial()
	}
	return s.c
}

func (s *service) dial() *remote {
	s.t.Helper()
	c, err := dialTree(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *service) read(name string) string {
	s.t.Helper()
	f := s.open(name, os.O_RDONLY)
	defer f.Close()
	late := time.AfterFunc(limit, func() { f.Close() })
	defer late.Stop()
	text, err := io.ReadAll(f)
	if err != nil {
		s.t.Fatalf("read %s: %v", name, err)
	}
	return string(text)
}

func (s *service) open(name string, flags int) *remoteFile {
	s.t.Helper()
	f, err := s.client().Open(name, flags)
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *service) tryWrite(name, text string) error {
	f, err := s.client().Open(name, os.O_WRONLY|os.O_TRUNC)
	if errors.Is(err, os.ErrNotExist) {
		f, err = s.client().Create(name, os.O_WRONLY, 0o644)
	}
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}

func (s *service) write(name, text string) {
	s.t.Helper()
	if err := s.tryWrite(name, text); err != nil {
		s.t.Fatalf("write %s: %v (%s)", name, err, s.why())
	}
}

// why returns the text of the last error that the service gave anyone.
func (s *service) why() string {
	s.t.Helper()
	return strings.TrimSpace(s.read("err"))
}

func (s *service) mkdir(name string) {
	s.t.Helper()
	if err := s.client().Mkdir(name, 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// vm makes a named VM and starts it.
func (s *service) vm(name string) {
	s.t.Helper()
	s.mkdir("vm/" + name)
	s.write("vm/"+name+"/ctl", "start\n")
}

// ready waits for the first that a command prints.
func (s *service) ready(exec string) {
	s.t.Helper()
	f := s.open(exec+"/stdout", os.O_RDONLY)
	defer f.Close()
	if _, err := f.Read(make([]byte, 16)); err != nil {
		s.t.Fatal(err)
	}
}

// sh runs a line in a VM, as an exec of its own, and returns both its
// streams and how it ended.
func (s *service) sh(vm, line string) (out, status string) {
	s.t.Helper()
	return s.begin(vm, line)()
}

// begin starts a shell's line in a VM; end waits for it.
func (s *service) begin(vm, line string) (end func() (out, status string)) {
	s.t.Helper()
	f := s.open("vm/"+vm+"/exec/clone", os.O_RDWR)
	p := make([]byte, 16)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		s.t.Fatal(err)
	}
	dir := "vm/" + vm + "/exec/" + strings.TrimSpace(string(p[:n]))
	if _, err := f.WriteAt([]byte("timeout 60s\nsh exec 2>&1 </dev/null; "+line+"\n"), 0); err != nil {
		s.t.Fatalf("%s: %v", line, err)
	}
	return func() (out, status string) {
		s.t.Helper()
		defer f.Close()
		out = s.read(dir + "/stdout")
		status, _, _ = strings.Cut(s.read(dir+"/wait"), " ")
		return out, status
	}
}

// command returns a program of bin with the service's address.
func (s *service) command(name string, args ...string) *exec.Cmd {
	return s.user(filepath.Join(s.bin, name), args...)
}

// user returns a command as the service's user, given up after the limit and
// gone when the test is.
func (s *service) user(name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	cmd := exec.CommandContext(ctx, name, args...)
	s.t.Cleanup(func() {
		cancel()
		cmd.Wait()
	})
	cmd.Env = append(os.Environ(), "HUTCH="+s.addr)
	cmd.WaitDelay = limit // what it has printed may be read later than it ends
	s.as(cmd)
	return cmd
}
