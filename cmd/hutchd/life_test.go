//go:build linux

package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// readers starts a reader of each stream, on the mount and over 9P, and
// returns a function that waits for their ends.
func (s *service) readers(names ...string) (wait func()) {
	s.t.Helper()
	var cats []*exec.Cmd
	var texts []*text
	for _, name := range names {
		f, err := os.Open(s.path(name))
		if err != nil {
			s.t.Fatal(err)
		}
		cat := exec.Command("cat")
		cat.Stdin = f
		texts = append(texts, printing(s.t, cat))
		f.Close()
		awaitRead(s.t, cat.Process.Pid)
		nine := s.command("hutch", "9p", "read", name)
		texts = append(texts, printing(s.t, nine))
		cats = append(cats, cat, nine)
	}
	return func() {
		s.t.Helper()
		for i, cat := range cats {
			texts[i].rest()
			cat.Wait()
		}
	}
}

// TestRestart ends hutchd in each way, with readers blocked everywhere: a
// named VM and its commands are there again with the next.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			s := serve(t, true)
			s.vm("dev")
			s.mkdir("vm/dev/exec/t")
			s.write("vm/dev/exec/t/ctl", "sh echo one; while read x; do echo got $x; test $x = end && exit 9; done\n")
			s.call("dev", "local__echo", `{"text":"before"}`)
			anonymous := s.anonymous()
			cat := s.user("cat", s.path("vm/dev/exec/t/stdout"))
			out := printing(t, cat)
			out.until("one\n")
			wait := s.readers("events", "log/follow", "vm/dev/events", "vm/dev/exec/t/stdout", "vm/dev/exec/t/stderr",
				"vm/dev/exec/t/wait", "vm/dev/cons", "vm/dev/mcp/calls")
			pid := s.cmd.Process.Pid
			if err := s.signal(sig); err != nil && sig != syscall.SIGKILL {
				t.Errorf("hutchd ended: %v", err)
			}
			wait()
			out.rest()
			cat.Wait()
			if sig != syscall.SIGKILL {
				if mounts, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(mounts), s.mount) {
					t.Error("still mounted")
				}
				if _, err := os.Lstat(filepath.Join(s.dir, "9p")); err == nil {
					t.Error("the socket is still there")
				}
				for p, line := range processes(s.dir + "/") {
					if strings.Contains(line, s.state()+"/vm/dev/") {
						continue
					}
					t.Errorf("process %d is left: %s", p, line)
				}
			}
			s.start()
			if s.cmd.Process.Pid == pid {
				t.Fatal("the same hutchd")
			}
			if sig == syscall.SIGKILL { // of which the next one has yet to end what nobody holds
				s.happens(`"vm":"` + anonymous + `","event":"removed"`)
			}
			if status := s.read("status"); status != "dev running gvisor host\n" {
				t.Errorf("after the restart the status is %q", status)
			}
			in := s.open("vm/dev/exec/t/stdin", os.O_WRONLY)
			defer in.Close()
			if _, err := in.WriteAt([]byte("two\nend\n"), 0); err != nil {
				t.Fatalf("%v (%s)", err, s.why())
			}
			if out, status := s.read("vm/dev/exec/t/stdout"), s.read("vm/dev/exec/t/wait"); out != "one\ngot two\ngot end\n" || !strings.HasPrefix(status, "9 ") {
				t.Errorf("the command gave %q and ended %q", out, status)
			}
			s.call("dev", "local__echo", `{"text":"after"}`)
			if calls := s.calls("dev", "after"); strings.Count(calls, "\n") != 2 || !strings.Contains(calls, "before") {
				t.Errorf("calls: %s", calls)
			}
			if out, status := s.sh("dev", "cat /proc/sys/kernel/hostname"); out != "dev\n" || status != "0" {
				t.Errorf("the adopted VM says %q, %s", out, status)
			}
		})
	}
}

// anonymous starts an anonymous VM, which lives as long as the connection.
func (s *service) anonymous() (name string) {
	s.t.Helper()
	f := s.open("vm/clone", os.O_RDWR)
	p := make([]byte, 16)
	n, err := f.ReadAt(p, 0)
	if n == 0 {
		s.t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("start\n"), 0); err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(p[:n]))
}

// happens waits until the service's events have text.
func (s *service) happens(text string) {
	s.t.Helper()
	cmd := s.command("hutch", "9p", "read", "events")
	printing(s.t, cmd).until(text)
	cmd.Process.Kill()
	cmd.Wait()
}

func TestSecondHutchd(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	for what, args := range map[string][]string{
		"is held by hutchd, process " + fmt.Sprint(s.cmd.Process.Pid): {"-state", s.state(), "-listen", s.addr + "2", "-mount", "none"},
		"file in use: ":     {"-state", s.state() + "2", "-listen", s.addr, "-mount", "none"},
		"mounted there":     {"-state", s.state() + "3", "-listen", s.addr + "3", "-mount", s.mount},
		"usage":             {"-state", s.state(), "more"},
		"at most 103 bytes": {"-state", s.state() + "4", "-listen", s.addr + strings.Repeat("x", 100), "-mount", "none"},
		"not the loopback":  {"-state", s.state() + "5", "-listen", "tcp!0.0.0.0!0", "-mount", "none"},
	} {
		out, err := s.command("hutchd", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), what) || strings.Contains(string(out), "ready") {
			t.Errorf("hutchd %v: %v\n%s, want %s", args, err, out, what)
		}
	}
	if err := exec.Command("stat", s.path("status")).Run(); err != nil {
		t.Errorf("the first: %v", err)
	}
}

// TestSuccessor starts a hutchd as soon as the one before says that it ends.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.mkdir("vm/dev")
	s.write("vm/dev/ctl", "start\n")
	old, ended := s.cmd, s.ended
	s.c.Close()
	s.c = nil
	if err := old.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintln(old.Process.Pid, "ending")
	poll(t, "line in the lock that hutchd ends", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.state(), "lock"))
		return string(text) == says
	})
	if err := s.tryStart(); err != nil {
		t.Fatalf("%v\n%s", err, s.log())
	}
	<-ended
	if text := s.read("vm/dev/status"); !strings.HasPrefix(text, "running\n") {
		t.Errorf("status %q", text)
	}
}

// TestTellsReady starts it as a service manager does that waits until it is told.
func TestTellsReady(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	s.as = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.dir, "notify")) }
	s.start()
	b := make([]byte, 100)
	manager.SetReadDeadline(time.Now().Add(limit))
	if n, err := manager.Read(b); string(b[:n]) != "READY=1" {
		t.Errorf("told %q, %v", b[:n], err)
	}
}

// TestClientDies kills those who hold anonymous VMs.
func TestClientDies(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, true)
	for name, cmd := range map[string]*exec.Cmd{
		"hutch run": s.command("hutch", "run", "sh", "-c", "echo up; exec sleep 1000"),
		"shell": s.user("sh", "-c", "cd "+s.mount+`; exec 3<>vm/clone; read n <&3; echo start >&3; exec 4<>vm/$n/exec/clone
			read e <&4; echo exec sleep 1000 >&4; exec 5<vm/$n/exec/$e/stdout; exec 6<events; echo up; exec cat <&5`),
	} {
		printed := printing(t, cmd)
		printed.until("up\n")
		status := s.read("status")
		vm, _, ok := strings.Cut(status, " running")
		if !ok {
			t.Errorf("%s: status is %q", name, status)
		}
		events := printing(t, s.command("hutch", "9p", "read", "events"))
		cmd.Process.Kill()
		printed.rest()
		cmd.Wait()
		events.until(`"vm":"` + vm + `","event":"removed"`)
		if status := s.read("status"); status != "" {
			t.Errorf("%s: after it the status is %q", name, status)
		}
		if left := processes(s.state() + "/vm/"); len(left) > 0 {
			t.Errorf("%s: processes are left: %v", name, left)
		}
	}
}

// TestShutdown ends the service, and every VM, from inside the tree.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	wait := s.readers("events", "vm/dev/events")
	s.tryWrite("ctl", "shutdown\n")
	select {
	case <-s.ended:
	case <-t.Context().Done():
	}
	s.cmd, s.c = nil, nil
	if s.err != nil {
		t.Errorf("hutchd: %v", s.err)
	}
	wait()
	if left := s.left(); left != "" {
		t.Errorf("left behind: %s", left)
	}
	s.start()
	if status := s.read("status"); status != "dev stopped gvisor host\n" {
		t.Errorf("status is %q", status)
	}
}

// TestShutdownIsAnswered ends the service by a message whose writer is told
// that it succeeded.
func TestShutdownIsAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	cmd := s.command("hutch", "9p", "write", "ctl")
	cmd.Stdin = strings.NewReader("shutdown\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("hutch 9p write ctl: %v %s", err, out)
	}
	select {
	case <-s.ended:
	case <-t.Context().Done():
	}
	s.cmd, s.c = nil, nil
}

// TestFullDisk fills the state folder's disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	need.Root(t)
	s := newService(t, true)
	if err := os.Mkdir(s.state(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.state(), "tmpfs", 0, "size=160m"); err != nil {
		need.Missing(t, "no tmpfs: "+err.Error())
	}
	s.last = func() { syscall.Unmount(s.state(), 0) }
	s.start()
	s.vm("dev")
	out, err := s.user("dd", "if=/dev/zero", "bs=64k", "of="+s.path("vm/dev/work/big")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "No space left on device") {
		t.Fatalf("dd: %v %s", err, out)
	}
	for what, try := range map[string]func() error{
		"mkdir vm": func() error { return s.client().Mkdir("vm/more", 0o755) },
		"work":     func() error { return s.tryWrite("vm/dev/work/more", strings.Repeat("x", 1<<20)) },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s on a full disk: %v (%s)", what, err, s.why())
		}
	}
	if out, status := s.sh("dev", "echo alive; echo x >/workspace/more"); !strings.HasPrefix(out, "alive\n") || status == "0" {
		t.Errorf("a command on a full disk: %q, %s", out, status)
	}
	if answer := s.relay("dev"); !strings.Contains(answer, "full") || strings.Contains(answer, "error") {
		t.Errorf("a call on a full disk: %s", answer)
	}
	s.calls("dev", "full")
	if err := s.client().Remove("vm/dev/work/big"); err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/more")
	s.write("vm/dev/work/more", "x")
	if text := s.call("dev", "local__echo", `{"text":"back"}`); !strings.Contains(text, "back") {
		t.Errorf("a call when there is room again: %s", text)
	}
	s.calls("dev", "back")
}

// calls returns what a VM called, up to the end of a call that has mark: a
// call is told of a moment after it was answered.
func (s *service) calls(vm, mark string) string {
	s.t.Helper()
	cmd := s.command("hutch", "calls", "-f", "-json", vm)
	printed := printing(s.t, cmd)
	printed.untilLine(mark)
	cmd.Process.Kill()
	cmd.Wait()
	whole := strings.LastIndexByte(printed.rest(), '\n') + 1 // it may have been killed as it wrote
	return printed.printed[:whole]
}

// relay has a client inside a VM call local__echo, and returns the answer.
func (s *service) relay(vm string) string {
	out, _ := s.sh(vm, `printf '%s\n' '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"local__echo","arguments":{"text":"full"}}}' | hutch-relay | tail -1`)
	return out
}

// TestWithoutAggregator runs where the program aggd is missing.
func TestWithoutAggregator(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hutchd", "hutch", "guest", "runsc", "locald"} {
		if err := os.Symlink(filepath.Join(s.bin, name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.start("-bin", bin)
	s.write("profiles/default.toml", "[mcpServers.web]\nurl = \"http://127.0.0.1:1/\"\n")
	s.vm("dev")
	if out, status := s.sh("dev", "echo runs"); out != "runs\n" || status != "0" {
		t.Errorf("%q %s", out, status)
	}
	if out := s.relay("dev"); !strings.Contains(out, "aggd") || !strings.Contains(out, `"error"`) || !strings.Contains(out, "missing") {
		t.Errorf("a call without aggd: %s", out)
	}
	s.calls("dev", "missing")
	if text := s.call("dev", "file_list", `{}`); !strings.Contains(text, "content") {
		t.Errorf("what needs no aggd: %s", text)
	}
	if text := s.read("vm/dev/mcp/servers"); !strings.Contains(text, "missing") {
		t.Errorf("servers: %s", text)
	}
}
