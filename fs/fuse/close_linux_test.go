package fuse

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// reader starts a program that blocks in the stream events.
func (s *served) reader() func() error {
	s.t.Helper()
	c := s.command("cat", s.path("events"))
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.do("blocked 1")
	return c.Wait
}

func (s *served) gone() {
	s.t.Helper()
	if m, err := mountedOn(s.dir); m != nil || err != nil {
		s.t.Errorf("still mounted: %v %v", m, err)
	}
	if list, err := os.ReadDir(s.dir); len(list) > 0 || err != nil {
		s.t.Errorf("mount point: %v %v", list, err)
	}
}

func TestCloseIdle(t *testing.T) {
	s := serving(t)
	s.do("close")
	s.gone()
	s.do("close") // does nothing
}

// Close ends with readers blocked, files open and a process standing inside.
func TestCloseBusy(t *testing.T) {
	s := serving(t)
	wait := s.reader()
	inside := s.command("sleep", "1000")
	inside.Dir = s.path("deep/a")
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.path("ctl"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	host, err := os.Create(s.path("work/f"))
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	s.do("close")
	s.gone()
	if err := wait(); err == nil {
		t.Error("the reader saw an end of file")
	}
	if _, err := f.WriteString("x\n"); err == nil {
		t.Error("written to a closed tree")
	}
	s.do("handles 0")
	s.do("open 0")
	s.do("wait")
	inside.Process.Kill()
	inside.Wait()
}

// Close ends though another mount namespace has the tree, too.
func TestCloseInNamespace(t *testing.T) {
	need.Root(t)
	s := serving(t)
	need.Namespace(t, t.TempDir())
	s.do("close")
	s.gone()
}

// Someone else unmounts: the server ends, and Close harms nobody.
func TestUnmountedByOther(t *testing.T) {
	s := serving(t)
	if err := syscall.Unmount(s.dir, 0); err != nil {
		t.Fatal(err)
	}
	s.do("wait")
	s.do("close")
	s.gone()
}

func TestLiveMountIsRefused(t *testing.T) {
	s := serving(t)
	err := s.again().start()
	if err == nil || !strings.Contains(err.Error(), "file in use: hutch (fuse.hutch) of user 0 is mounted there") {
		t.Errorf("second mount: %v", err)
	}
	if _, err := os.Stat(s.path("status")); err != nil {
		t.Errorf("first mount: %v", err)
	}
}

func TestKilledServer(t *testing.T) {
	s := serving(t)
	wait := s.reader()
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if err := wait(); err == nil {
		t.Error("the reader saw an end of file")
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("stat of a dead mount: %v", err)
	}
	again := s.again()
	if err := again.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(again.path("status")); err != nil {
		t.Error(err)
	}
	again.do("close")
	again.gone()
}

// A killed server's mount is dead, though a program that it started lives.
func TestKilledServerWithChild(t *testing.T) {
	s := serving(t)
	wait := s.reader()
	child, _ := strconv.Atoi(s.do("child 1000"))
	defer syscall.Kill(child, syscall.SIGKILL)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if err := wait(); err == nil {
		t.Error("the reader saw an end of file")
	}
	if out, err := s.command("stat", s.path("status")).CombinedOutput(); err == nil || !strings.Contains(string(out), "not connected") {
		t.Errorf("stat: %v %s", err, out)
	}
}

func TestMountMakesDir(t *testing.T) {
	need.FUSE(t)
	dir := t.TempDir()
	s := &served{t: t, dir: dir + "/a/b", work: dir}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path("status")); err != nil {
		t.Error(err)
	}
	os.WriteFile(dir+"/file", nil, 0o644)
	f := &served{t: t, dir: dir + "/file", work: dir}
	if err := f.start(); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("mount on a file: %v", err)
	}
}

// ordinary is a mount of an ordinary user, who has a usable /dev/fuse in a
// mount namespace of his own: on some machines it is root's alone.
func ordinary(t *testing.T) *served {
	t.Helper()
	need.Root(t) // to become someone else
	need.FUSE(t)
	need.Tool(t, "fusermount3")
	s := folders(t)
	base := filepath.Dir(s.dir)
	walkable(base)
	for _, d := range []string{s.dir, s.work, filepath.Join(base, "store")} {
		if err := os.Chown(d, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	home := strconv.Itoa(need.Namespace(t, t.TempDir()))
	s.as = []string{need.Tool(t, "nsenter"), "-t", home, "-m", "-S", "65534", "-G", "65534", "--"}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOrdinaryUser(t *testing.T) {
	s := ordinary(t)
	out, err := s.sh("dash", "wc -c <status && echo x > ctl && echo y > work/f && cat work/f && mv work/f work/g && ls work && echo z > store/s && cat store/s")
	if err != nil || out != "19\ny\ng\nz\n" {
		t.Errorf("%v: %s", err, out)
	}
	c := s.command("cat", s.path("events"))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.do("blocked 1")
	c.Process.Signal(syscall.SIGINT)
	c.Wait()
	s.do("blocked 0")
	s.do("close")
	if out, err := s.sh("dash", "ls"); err != nil || out != "" {
		t.Errorf("after close: %q %v", out, err)
	}
}

// Root can let others in; modes then hold for them.
func TestAllowOther(t *testing.T) {
	need.Root(t)
	need.FUSE(t)
	s := folders(t)
	walkable(filepath.Dir(s.dir))
	os.Chmod(s.work, 0o777)
	s.whom = "all"
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	c := s.command("dash", "-c", "cd "+s.dir+"; wc -c <status; (echo x >ctl) 2>/dev/null || echo refused; echo y >work/f; mkdir work/d; stat -c '%U %a' work/f work/d")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if want := "19\nrefused\nnobody 644\nnobody 755\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s, want\n%s", err, out, want)
	}
}

func TestOrdinaryUserCloseBusy(t *testing.T) {
	s := ordinary(t)
	wait := s.reader()
	if text, err := s.tell("close"); err != nil {
		t.Errorf("close: %q %v", text, err)
	}
	if err := wait(); err == nil {
		t.Error("the reader saw an end of file")
	}
	s.do("wait")
	s.do("handles 0")
}

// A process that stays inside is told of, where the connection cannot be cut.
func TestOrdinaryUserCloseHeld(t *testing.T) {
	s := ordinary(t)
	inside := s.command("dash", "-c", "cd "+s.path("deep")+"; exec 3<"+s.path("events")+"; echo in; exec cat")
	hold, err := inside.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	told, err := inside.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(told).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	s.do("handles 1")
	s.do("letgo 1s")
	if _, err := s.tell("close"); err != nil && !strings.Contains(err.Error(), "file in use: out of sight") {
		t.Errorf("close: %v", err)
	}
	if out, err := s.sh("dash", "ls"); err != nil || out != "" {
		t.Errorf("after close: %q %v", out, err)
	}
	s.do("handles 0")
	hold.Close()
	inside.Wait()
	s.do("wait")
}

func TestOrdinaryUserKilledServer(t *testing.T) {
	s := ordinary(t)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	again := s.again()
	if err := again.start(); err != nil {
		t.Fatal(err)
	}
	if out, err := again.sh("dash", "cat deep/a/b/c/leaf"); err != nil || out != "leaf\n" {
		t.Errorf("%q %v", out, err)
	}
}
