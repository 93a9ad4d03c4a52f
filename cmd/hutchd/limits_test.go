//go:build linux

package main_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// limited makes a VM with the lines of config and starts it.
func (s *service) limited(vm string, lines ...string) {
	s.t.Helper()
	s.mkdir("vm/" + vm)
	s.write("vm/"+vm+"/config", strings.Join(lines, "\n")+"\n")
	s.write("vm/"+vm+"/ctl", "start\n")
}

// tells waits until the events of a VM have text.
func (s *service) tells(vm, text string) {
	s.t.Helper()
	cmd := s.command("hutch", "9p", "read", "vm/"+vm+"/events")
	printing(s.t, cmd).until(text)
	cmd.Process.Kill()
	cmd.Wait()
}

// stopped waits until a VM that is ending has ended, and checks the reason.
func (s *service) stopped(vm, state, reason string) {
	s.t.Helper()
	s.tells(vm, `"event":"`+state+`"`)
	if status := s.read("vm/" + vm + "/status"); !strings.HasPrefix(status, state+"\nreason "+reason+"\n") {
		s.t.Errorf("status of %s: %s, want %s: %s", vm, status, state, reason)
	}
}

// groupName is the name of the folder that the control groups of the service's
// VMs are in.
func (s *service) groupName() string {
	return fmt.Sprintf("hutch-%08x", crc32.ChecksumIEEE([]byte(s.state())))
}

// groups returns the folders of those control groups.
func (s *service) groups() []string {
	s.t.Helper()
	name := "/" + s.groupName()
	var dirs []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, name+"/vm-") {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// needGroups needs a VM's memory to be limited by a control group.
func (s *service) needGroups(vm string) {
	s.t.Helper()
	status := s.read("vm/" + vm + "/status")
	if !strings.Contains(status, "MiB by cgroup\n") {
		need.Missing(s.t, "no control groups: "+status)
	}
}

// TestOutOfMemory has a guest take more memory than it may: it alone dies, and
// it is told why.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.limited("big", "ram 128MiB")
	s.needGroups("big")
	s.vm("other")
	if out, _ := s.sh("big", "grep MemTotal /proc/meminfo"); strings.Join(strings.Fields(out), " ") != "MemTotal: 131072 kB" {
		t.Errorf("the guest sees %q", out)
	}
	s.mkdir("vm/big/exec/t")
	s.write("vm/big/exec/t/ctl", "sh head -c 400m /dev/zero | tail\n")
	s.tells("big", `"event":"oom"`)
	s.stopped("big", "failed", "killed: out of memory (ram 128MiB)")
	if line := s.read("vm/big/log/exec"); !strings.Contains(line, `"error_message":"killed: out of memory (ram 128MiB)"`) {
		t.Errorf("log/exec: %s", line)
	}
	if out, status := s.sh("other", "echo unmoved"); out != "unmoved\n" || status != "0" {
		t.Errorf("the other VM: %q, %s", out, status)
	}
	s.write("vm/big/ctl", "start\n")
	if out, _ := s.sh("big", "echo again"); out != "again\n" {
		t.Errorf("after a new start: %q", out)
	}
	s.write("vm/big/ctl", "stop\n")
	s.write("vm/other/ctl", "stop\n")
	if left := s.groups(); len(left) > 0 {
		t.Errorf("control groups are left: %q", left)
	}
}

// TestForkBomb sets one off in a guest: the agent still answers, memory stays
// where it was, and the other VM does not notice.
func TestForkBomb(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.limited("bomb", "pids 48", "ram 512MiB")
	s.vm("other")
	s.mkdir("vm/bomb/exec/t")
	// A shell would end at the first fork that is refused, this does not.
	s.write("vm/bomb/exec/t/ctl", "sh perl -e 'while (1) { fork // select undef, undef, undef, .01 }'\n")
	s.tells("bomb", `"text":"pids: the guest has `)
	status := s.read("vm/bomb/status")
	var n int
	for line := range strings.Lines(status) {
		fmt.Sscanf(line, "pids %d of 48 by gvisor\n", &n)
	}
	if n > 80 || n == 0 { // the agent's threads may come on top
		t.Errorf("there are %d processes: %s", n, status)
	}
	if out, status := s.sh("other", "echo unmoved"); out != "unmoved\n" || status != "0" {
		t.Errorf("the other VM: %q, %s", out, status)
	}
	if out, status := s.sh("bomb", "echo alive"); out != "alive\n" || status != "0" {
		t.Errorf("the bombed VM: %q, %s", out, status)
	}
	s.write("vm/bomb/ctl", "kill\n")
}

// TestThreads has the limit hold for whoever the guest's root becomes, and
// for the limit not to be raised.
func TestThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.limited("dev", "pids 40")
	out, _ := s.sh("dev", `ulimit -p 1000 || echo no more; i=0; while [ $i -lt 60 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo made all`)
	if !strings.Contains(out, "no more") || strings.Contains(out, "made all") || !strings.Contains(out, "ork") {
		t.Errorf("60 processes: %q", out)
	}
}

// TestFullLayer has guests write more than they may, to each place.
func TestFullLayer(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	for vm, place := range map[string]string{"layer": "/root/big", "work": "/workspace/big"} {
		s.limited(vm, "disk 20MiB")
		s.mkdir("vm/" + vm + "/exec/t")
		s.write("vm/"+vm+"/exec/t/ctl", "sh head -c 30m /dev/zero >"+place+"; sleep 1000\n")
		const why = "disk: more than 20.0MiB are used, 20MiB may be"
		s.tells(vm, `"event":"limit"`)
		s.stopped(vm, "stopped", why)
		if err := s.tryWrite("vm/"+vm+"/ctl", "start\n"); err == nil || s.why() != "no space left on device: "+why+": remove files from work, or set disk" {
			t.Errorf("start with a full disk: %v: %s", err, s.why())
		}
	}
	if err := s.client().Remove("vm/work/work/big"); err != nil {
		t.Fatal(err)
	}
	s.write("vm/work/ctl", "start\n")
}

// TestProcessors looks at what a guest sees of its processors, and at what
// holds it to them.
func TestProcessors(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.limited("half", "cpus 0.5", "ram 256MiB")
	s.needGroups("half")
	if out, _ := s.sh("half", "nproc"); out != "1\n" {
		t.Errorf("nproc says %q", out)
	}
	if status := s.read("vm/half/status"); !strings.Contains(status, "\ncpus 0.5 by cgroup\n") {
		t.Errorf("status: %s", status)
	}
	for _, dir := range s.groups() {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
		if err != nil {
			text, err = os.ReadFile(filepath.Join(dir, "cpu.max"))
		}
		if err == nil && strings.Fields(string(text))[0] == "50000" {
			return
		}
	}
	t.Errorf("no group has the quota: %q", s.groups())
}

// TestTimes has VMs stop that ran, or were unused, for long enough.
func TestTimes(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.limited("ttl", "ttl 2s")
	s.limited("idle", "idle 1s")
	s.stopped("ttl", "stopped", "ttl: it ran for 2s")
	s.stopped("idle", "stopped", "idle: it was not used for 1s")
}

// end kills a process, and waits until it is gone.
func end(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	syscall.Kill(pid, syscall.SIGKILL)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
		if err == nil && n == 0 {
			t.Fatalf("process %d does not end", pid)
		}
		if err != unix.EINTR {
			return
		}
	}
}

// TestLimitsAfterKill kills hutchd and starts it again: limits hold on, and
// are watched.
func TestLimitsAfterKill(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.limited("big", "ram 128MiB")
	s.needGroups("big")
	s.limited("dead", "ram 128MiB")
	before := len(s.groups())
	s.signal(syscall.SIGKILL)
	for pid, line := range processes(s.state() + "/vm/dead/") {
		if strings.Contains(line, "runsc-sandbox") {
			end(t, pid)
		}
	}
	s.start()
	if status := s.read("vm/big/status"); !strings.Contains(status, " of 128MiB by cgroup\n") && !strings.Contains(status, "\nram 128MiB by cgroup\n") {
		t.Errorf("status: %s", status)
	}
	if after := s.groups(); len(after)*2 != before {
		t.Errorf("%d groups of two VMs, of one %q", before, after)
	}
	s.mkdir("vm/big/exec/t")
	s.write("vm/big/exec/t/ctl", "sh head -c 400m /dev/zero | tail\n")
	s.stopped("big", "failed", "killed: out of memory (ram 128MiB)")
}
