//go:build linux

package agent

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"hutch/fs/need"
)

// family is a shell with a child in its group, one in a group and one in a session
// of its own, and a grandchild whose parent went. Each prints its pid and waits.
const family = `setsid sh -c 'echo $$; exec sleep 1000' & sh -c 'echo $$; exec sleep 1000' & set -m; sh -c 'echo $$; exec sleep 1000' & ` +
	`(sh -c 'echo $$; exec sleep 1000' &); set +m; echo $$; sleep 1000`

// pids reads n pids.
func pids(t *testing.T, r io.Reader, n int) []int {
	t.Helper()
	var text strings.Builder
	p := make([]byte, 100)
	for strings.Count(text.String(), "\n") < n {
		k, err := r.Read(p)
		text.Write(p[:k])
		if err != nil {
			t.Fatalf("%q, %v", &text, err)
		}
	}
	var list []int
	for _, f := range strings.Fields(text.String()) {
		var pid int
		fmt.Sscan(f, &pid)
		list = append(list, pid)
	}
	return list
}

// gone waits for the end of a process that was killed.
func gone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 60_000)
		if err == unix.EINTR {
			continue
		}
		if n == 0 {
			t.Errorf("%d is alive", pid)
		}
		return
	}
}

func TestKillReachesAll(t *testing.T) {
	for _, c := range []struct{ line, status string }{
		{"kill", "SIGKILL"},
		{"signal TERM", "SIGTERM"},
		{"signal sigint", ""},
		{"signal 9", "SIGKILL"},
	} {
		g := newGuest(t)
		g.exec("t", "sh "+family)
		out := g.open("exec/t/stdout", os.O_RDONLY)
		list := pids(t, out, 5)
		if err := g.write("exec/t/ctl", c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if c.status == "" { // a shell's background children ignore it
			for _, pid := range list {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			continue
		}
		if s := g.status("t"); s != c.status {
			t.Errorf("%s: status %s", c.line, s)
		}
		if _, err := io.Copy(io.Discard, out); err != nil { // all writers are gone
			t.Error(err)
		}
		for _, pid := range list {
			gone(t, pid)
		}
	}
}

func TestDropWhileRunning(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "sh "+family)
	out, wait := g.open("exec/t/stdout", os.O_RDONLY), g.open("exec/t/wait", os.O_RDONLY)
	list := pids(t, out, 5)
	if err := g.rmdir("t"); err != nil {
		t.Fatal(err)
	}
	expect(t, wait, "SIGKILL")
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	for _, pid := range list {
		gone(t, pid)
	}
}

func TestDropBeforeExec(t *testing.T) {
	g := newGuest(t)
	g.exec("t")
	wait, out := g.open("exec/t/wait", os.O_RDONLY), g.open("exec/t/stdout", os.O_RDONLY)
	if err := g.rmdir("t"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(wait); err == nil {
		t.Error("wait for what never ran")
	}
	if b, err := io.ReadAll(out); len(b) > 0 || err != nil {
		t.Errorf("stdout: %q, %v", b, err)
	}
}

func TestDropOfFullSpool(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "limit 8KiB", "exec yes")
	out := g.open("exec/t/stdout", os.O_RDONLY)
	expect(t, out, "y\ny\n")
	if err := g.rmdir("t"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
}

func TestTimeout(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "sh trap 'echo bye; exit 7' TERM; echo up; sleep 1000 & wait")
	expect(t, g.open("exec/t/stdout", os.O_RDONLY), "up\n") // the trap is set
	if err := g.write("exec/t/ctl", "timeout 1ms\n"); err != nil {
		t.Fatal(err)
	}
	if line := g.read("exec/t/wait"); !strings.HasPrefix(line, "7 ") || !strings.HasSuffix(line, " timeout\n") {
		t.Errorf("wait is %q", line)
	}
	g.want("exec/t/stdout", "up\nbye\n")
	g.exec("early", "timeout 1ms", "exec sleep 1000")
	if line := g.read("exec/early/wait"); !strings.HasPrefix(line, "SIGTERM ") || !strings.HasSuffix(line, " timeout\n") {
		t.Errorf("set before it began: wait is %q", line)
	}
}

func TestTimeoutKills(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the grace of two seconds")
	}
	g := newGuest(t)
	g.exec("t", "sh trap '' TERM; echo up; sh -c 'echo up; while :; do sleep 1; done' & while :; do sleep 1; done")
	out := g.open("exec/t/stdout", os.O_RDONLY)
	expect(t, out, "up\nup\n")
	if err := g.write("exec/t/ctl", "timeout 1ms\n"); err != nil { // from when it began
		t.Fatal(err)
	}
	if line := g.read("exec/t/wait"); !strings.HasPrefix(line, "SIGKILL ") || !strings.HasSuffix(line, " timeout\n") {
		t.Errorf("wait is %q", line)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}

	// What has left the session and outlives its parent is killed too.
	g.exec("left", `sh setsid sh -c 'trap "" TERM; echo up; while :; do sleep 1; done' & sleep 1000`)
	out = g.open("exec/left/stdout", os.O_RDONLY)
	expect(t, out, "up\n")
	if err := g.write("exec/left/ctl", "timeout 1ms\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
}

func TestKillOnClose(t *testing.T) {
	g := newGuest(t)
	g.mkdir("t")
	ctl, out := g.open("exec/t/ctl", os.O_RDWR), g.open("exec/t/stdout", os.O_RDONLY)
	io.WriteString(ctl, "killonclose\nexec sleep 1000\n")
	ctl.Close()
	if s := g.read("exec/t/status"); !strings.HasPrefix(s, "running\n") || !strings.Contains(s, "killonclose 1\n") {
		t.Errorf("with a file open: %q", s)
	}
	wait := g.a.command("t").ended
	out.Close()
	<-wait
	if s := g.status("t"); s != "SIGKILL" {
		t.Errorf("status %s", s)
	}
}

func TestLostConnectionKillsNothing(t *testing.T) {
	g := newGuest(t)
	g.mkdir("t")
	ctl := g.open("exec/t/ctl", os.O_RDWR)
	io.WriteString(ctl, "killonclose\nexec cat\n")
	g.from.Close()
	ctl.Close()
	g.connect()
	if s := g.read("exec/t/status"); !strings.HasPrefix(s, "running\n") {
		t.Errorf("status %q", s)
	}
}

// TestHeldPipe has a child that keeps stdout open when the command is gone.
func TestHeldPipe(t *testing.T) {
	g := newGuest(t)
	g.exec("t", "sh sleep 1000 & echo $!")
	out := g.open("exec/t/stdout", os.O_RDONLY)
	pid := pids(t, out, 1)[0]
	if s := g.status("t"); s != "0" {
		t.Errorf("status %s", s)
	}
	if err := g.write("exec/t/ctl", "signal TERM\n"); err != nil { // to those that are left
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// TestOrphans runs the agent as PID 1 of a namespace of its own.
func TestOrphans(t *testing.T) {
	if os.Getenv("AGENT_TEST_INIT") != "" {
		initTest(t)
		return
	}
	need.Root(t)
	r := newReaper(false, nil)
	defer r.close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan exit, 1)
	_, err = r.start(self, []string{self, "-test.run=^TestOrphans$", "-test.v"}, &syscall.ProcAttr{
		Env: append(os.Environ(), "AGENT_TEST_INIT=1"), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS},
	}, func(e exit) { ended <- e })
	if err != nil {
		need.Missing(t, "no PID namespace: "+err.Error())
	}
	if e := <-ended; e.status.ExitStatus() != 0 {
		t.Errorf("init ended with %s", ending(e))
	}
}

// initTest is PID 1: orphans are collected, and no status is lost to that.
func initTest(t *testing.T) {
	if os.Getpid() != 1 {
		t.Fatalf("pid %d", os.Getpid())
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Init: true})
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, a: a}
	g.connect()
	for i := range 30 {
		name := fmt.Sprint(i)
		g.exec(name, fmt.Sprintf("sh (true &); (sleep 0.01 &); exit %d", i))
		if err := g.write("exec/"+name+"/ctl", "exec true\n"); err == nil {
			t.Error("ran twice")
		}
	}
	for i := range 30 {
		if s := g.status(fmt.Sprint(i)); s != fmt.Sprint(i) {
			t.Errorf("%d ended with %s", i, s)
		}
		if _, err := io.ReadAll(g.open(fmt.Sprintf("exec/%d/stdout", i), os.O_RDONLY)); err != nil {
			t.Error(err)
		}
	}
	g.exec("last", "sh trap '' TERM; sleep 1000")
	a.terminate()
	if left := processes(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	a.Close()
	if n, _ := wait(-1); n != 0 {
		t.Errorf("%d was not collected", n)
	}
}
