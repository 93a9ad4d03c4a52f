//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// counting prints numbered lines until it is told to stop, and says in the
// workspace how far it is.
const counting = "sh n=0; until test -e /workspace/stop; do n=$((n+1)); echo line $n; echo $n >/workspace/n; done; exit 7\n"

// counted checks that a command gave each line once.
func counted(t *testing.T, who, out string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(out) {
		if n++; line != fmt.Sprintf("line %d\n", n) {
			t.Errorf("%s: line %d is %q", who, n, line)
			return
		}
	}
	if n == 0 {
		t.Errorf("%s: no lines", who)
	}
}

// counts waits until the command of counting in a VM has gone on.
func (s *service) counts(vm string) {
	s.t.Helper()
	if out, status := s.sh(vm, `until test -s /workspace/n; do :; done; n=$(cat /workspace/n); while test "$n" = "$(cat /workspace/n)"; do :; done; echo on`); out != "on\n" || status != "0" {
		s.t.Fatalf("vm %s does not count: %q, %s", vm, out, status)
	}
}

// A session is an MCP client's in a VM, by a relay that a command is.
type session struct {
	s    *service
	dir  string
	said *text
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"

func (s *service) session(vm string) *session {
	s.t.Helper()
	c := s.sessionAgain(vm)
	s.mkdir(c.dir)
	s.write(c.dir+"/ctl", "exec hutch-relay\n")
	c.write(hello)
	c.hear()
	c.said.until(`"id":0`)
	return c
}

// sessionAgain is the session that there is in a VM that was resumed or copied.
func (s *service) sessionAgain(vm string) *session {
	return &session{s: s, dir: "vm/" + vm + "/exec/mcp"}
}

func (c *session) hear() {
	c.said = printing(c.s.t, c.s.command("hutch", "9p", "read", c.dir+"/stdout"))
}

// write writes to the relay, whose stdin stays open for who comes next.
func (c *session) write(line string) {
	c.s.t.Helper()
	in := c.s.open(c.dir+"/stdin", os.O_WRONLY)
	c.s.t.Cleanup(func() { in.Close() })
	if _, err := in.WriteAt([]byte(line), 0); err != nil {
		c.s.t.Fatalf("%v (%s)", err, c.s.why())
	}
}

// call calls local__echo, and waits for the answer.
func (c *session) call(id int, text string) {
	c.s.t.Helper()
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"local__echo","arguments":{"text":%q}}}`+"\n", id, text))
	c.hear()
	c.said.until(fmt.Sprintf(`"id":%d`, id))
	if !strings.Contains(c.said.printed, text) {
		c.s.t.Errorf("the session of %s heard %q", c.dir, c.said.printed)
	}
}

// TestSuspend suspends a VM in the midst of its work, ends hutchd in each way
// and resumes the VM with the next.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{0, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint("signal ", int(sig)), func(t *testing.T) { suspend(t, serve(t, false), sig) })
	}
}

func suspend(t *testing.T, s *service, sig syscall.Signal) {
	s.vm("dev")
	mcp := s.session("dev")
	mcp.call(1, "before")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", counting)
	s.counts("dev")
	streamed := printing(t, s.command("hutch", "9p", "read", "vm/dev/exec/t/stdout"))
	streamed.until("line 9\n")
	s.write("vm/dev/ctl", "suspend\n")
	if left := processes(s.state() + "/vm/dev"); len(left) > 0 {
		t.Errorf("processes of a suspended VM: %v", left)
	}
	n, err := os.ReadFile(filepath.Join(s.state(), "vm/dev/work/n"))
	if err != nil {
		t.Fatal(err)
	}
	if sig != 0 {
		if err := s.signal(sig); err != nil && sig != syscall.SIGKILL {
			t.Errorf("hutchd: %v", err)
		}
		streamed.rest()
		s.start()
		if status := s.read("status"); status != "dev suspended gvisor host\n" {
			t.Errorf("the next hutchd has %q", status)
		}
	}
	if now, _ := os.ReadFile(filepath.Join(s.state(), "vm/dev/work/n")); string(now) != string(n) {
		t.Errorf("a suspended VM has counted from %s to %s", n, now)
	}
	s.write("vm/dev/ctl", "resume\n")
	s.counts("dev")
	mcp.call(2, "after")
	s.write("vm/dev/work/stop", "")
	whole, status := s.read("vm/dev/exec/t/stdout"), s.read("vm/dev/exec/t/wait")
	if !strings.HasPrefix(status, "7 ") {
		t.Errorf("the command ended %q", status)
	}
	counted(t, "from the start", whole)
	if got := streamed.rest(); sig == 0 && got != whole {
		t.Errorf("who read on meanwhile has %d bytes of %d", len(got), len(whole))
	} else if !strings.HasPrefix(whole, got) {
		t.Errorf("who read before has other lines")
	}
	if before, _ := strconv.Atoi(strings.TrimSpace(string(n))); strings.Count(whole, "\n") <= before {
		t.Errorf("%d lines after the resume, %d before", strings.Count(whole, "\n"), before)
	}
	if calls := s.calls("dev", "after"); strings.Count(calls, "local__echo") < 2 || !strings.Contains(calls, "before") {
		t.Errorf("calls: %s", calls)
	}
}

// TestForkLive has a VM and its copy go on from the same memory, each by itself.
func TestForkLive(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	forkLive(t, serve(t, false))
}

func forkLive(t *testing.T, s *service) {
	s.vm("dev")
	mcp := s.session("dev")
	mcp.call(1, "shared")
	s.mkdir("vm/dev/exec/t")
	s.write("vm/dev/exec/t/ctl", counting)
	s.counts("dev")
	s.sh("dev", "echo layer >/root/f; echo memory >/dev/shm/f")
	at, _ := os.ReadFile(filepath.Join(s.state(), "vm/dev/work/n"))
	s.write("vm/dev/ctl", "fork -live copy\n")
	for _, vm := range []string{"dev", "copy"} {
		s.counts(vm)
		if out, _ := s.sh(vm, "cat /proc/sys/kernel/hostname /root/f /dev/shm/f"); out != vm+"\nlayer\nmemory\n" {
			t.Errorf("vm %s says %q", vm, out)
		}
	}
	copied := s.sessionAgain("copy")
	copied.call(2, "to-copy")
	mcp.call(2, "to-parent")
	if calls := s.calls("copy", "to-copy"); strings.Contains(calls, "to-parent") || strings.Contains(calls, "shared") {
		t.Errorf("calls of the copy: %s", calls)
	}
	if calls := s.calls("dev", "to-parent"); strings.Contains(calls, "to-copy") || !strings.Contains(calls, "shared") {
		t.Errorf("calls of the VM: %s", calls)
	}
	s.sh("copy", "echo mine >/root/f; touch /workspace/stop")
	out := s.read("vm/copy/exec/t/stdout")
	counted(t, "the copy", out)
	if first, _ := strconv.Atoi(strings.TrimSpace(string(at))); strings.Count(out, "\n") <= first {
		t.Errorf("the copy has %d lines, the VM had %d", strings.Count(out, "\n"), first)
	}
	s.write("vm/copy/ctl", "kill\n")
	s.counts("dev")
	if out, _ := s.sh("dev", "cat /root/f; ls /workspace"); out != "layer\nn\n" {
		t.Errorf("after the copy's end the VM has %q", out)
	}
	s.write("vm/dev/work/stop", "")
	counted(t, "the VM", s.read("vm/dev/exec/t/stdout"))
}

// TestSuspendAsOrdinaryUser does the same as a user without any power.
func TestSuspendAsOrdinaryUser(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := ordinary(t)
	s.start()
	suspend(t, s, syscall.SIGKILL)
	s.write("ctl", "purge all\n")
	forkLive(t, s)
}
