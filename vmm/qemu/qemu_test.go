//go:build linux

package qemu_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"hutch/fs/need"
	"hutch/relay/guest"
	"hutch/vmm"
	"hutch/vmm/pack"
	"hutch/vmm/qemu"
	"hutch/vmm/vmmtest"
)

// These tests run whole VMs: a table, the driver, and the agent in the guest.
// A machine without KVM takes seconds to boot, so they have few of them.

// config returns the configuration of a driver in dir that has a kernel.
func config(t testing.TB, dir string) qemu.Config {
	t.Helper()
	kernel := need.QEMU(t)
	return qemu.Config{
		Guest: filepath.Join(need.Programs(t), "guest"), Dir: filepath.Join(dir, "qemu"),
		Kernels: []string{kernel}, Accel: os.Getenv("HUTCH_TEST_ACCEL"),
	}
}

func openTable(t testing.TB, dir string) *vmm.Table {
	t.Helper()
	table, err := vmm.Open(vmm.Options{Dir: dir, Drivers: []vmm.Driver{qemu.New(config(t, dir))}, StartLimit: patience})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// patience bounds what a test waits for; nothing is measured by it.
const patience = 4 * time.Minute

func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// output runs a shell line in the VM and returns what it prints.
func output(t testing.TB, v *vmm.VM, line string) (string, error) {
	return vmmtest.Printed(limit(t), v, "sh "+line)
}

func wantOutput(t testing.TB, v *vmm.VM, line, want string) {
	t.Helper()
	if got, err := output(t, v, line); got != want || err != nil {
		t.Errorf("%s: %q, %v; want %q", line, got, err, want)
	}
}

func start(t testing.TB, v *vmm.VM) {
	t.Helper()
	began := time.Now()
	if err := v.Start(limit(t)); err != nil {
		serial, _ := os.ReadFile(filepath.Join(v.Dir(), "log", "serial"))
		process, _ := os.ReadFile(filepath.Join(v.Dir(), "log", "process"))
		t.Fatalf("%v\nserial:\n%s\nprocess:\n%s", err, serial, process)
	}
	t.Logf("%s started in %s", v.Name(), time.Since(began).Round(time.Millisecond))
}

// pid returns the number of the VM's process.
func pid(t testing.TB, v *vmm.VM) string {
	t.Helper()
	_, rest, ok := strings.Cut(v.Status(), "\npid ")
	if !ok {
		t.Fatalf("no process in the status: %s", v.Status())
	}
	number, _, _ := strings.Cut(rest, "\n")
	return number
}

// TestLife has one VM do what VMs do.
func TestLife(t *testing.T) {
	dir := t.TempDir()
	need.Sweep(t, dir)
	table := openTable(t, dir)
	v, err := table.Make(limit(t), "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Kill(context.Background()) // where the test fails early
	os.WriteFile(filepath.Join(v.Dir(), "env", "GREETING"), []byte("hello\n"), 0o644)
	start(t, v)
	t.Run("guest", func(t *testing.T) { inGuest(t, v) })
	t.Run("process", func(t *testing.T) { ofProcess(t, v) })
	t.Run("files", func(t *testing.T) { files(t, v) })
	t.Run("suspend", func(t *testing.T) { suspend(t, v) })
	if !testing.Short() { // as it is beside the race detector: guests that boot take long
		boots(t, table, v)
	}
	for _, v := range table.List() {
		v.Stop(limit(t))
	}
	if err := errors.Join(table.Remove(limit(t), "dev"), table.Close(limit(t))); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "vm")); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

// boots has a fork of the VM boot, and then the VM itself, to be crashed.
func boots(t *testing.T, table *vmm.Table, v *vmm.VM) {
	t.Run("fork", func(t *testing.T) { fork(t, table, v) })
	began := time.Now()
	if err := v.Stop(limit(t)); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
	if err := v.Set(limit(t), "pids", "40"); err != nil {
		t.Fatal(err)
	}
	start(t, v)
	t.Run("processes", func(t *testing.T) { processes(t, v) })
	wantOutput(t, v, "cat /root/kept; ls /etc/services 2>&1", "kept\nls: cannot access '/etc/services': No such file or directory\n")
	t.Run("crash", func(t *testing.T) { crash(t, v) })
}

func inGuest(t *testing.T, v *vmm.VM) {
	for line, want := range map[string]string{
		"echo $GREETING from $(hostname)": "hello from dev\n",
		"id -u; pwd":                      "0\n/workspace\n",
		"command -v hutch-relay":          "/opt/hutch/bin/hutch-relay\n",
		"test -w /tmp && test -c /dev/null && mountpoint -q /proc && echo ok": "ok\n",
		"ls /sys/class/net": "lo\n",
		"cat /proc/1/comm":  "init\n",
	} {
		wantOutput(t, v, line, want)
	}
	clock(t, v)
}

// clock checks that the guest's clock is the host's. What it may be off by is
// more than a machine that is translated on a busy host takes to hear of it;
// what the guest says may come here much later than that, if rarely.
func clock(t *testing.T, v *vmm.VM) {
	t.Helper()
	const off = time.Second
	var late time.Duration
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		text, err := output(t, v, "date +%s%N")
		now := time.Now()
		n, perr := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err = errors.Join(err, perr); err != nil {
			t.Fatal(err)
		}
		if late = now.Sub(time.Unix(0, n)); late.Abs() < off {
			t.Logf("%s: the clock is at most %v late", v.Name(), late)
			return
		}
	}
	t.Errorf("%s: the clock is %v late", v.Name(), late)
}

// ofProcess looks at QEMU from the outside.
// processes has a command make as many as it may have, and more; hutch's own
// are not bound by that.
func processes(t *testing.T, v *vmm.VM) {
	// They run no program: to start so many at once keeps a guest from answering.
	e := begin(t, v, "mkfifo /tmp/never && exec 3<>/tmp/never; i=0; while [ $i -lt 100 ]; do read x <&3 & i=$((i+1)); done; echo made all")
	wait, err := e.Open(limit(t), "wait", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer wait.Close()
	line := make([]byte, 100)
	if n, err := wait.ReadAt(limit(t), line, 0); err != nil || strings.HasPrefix(string(line[:n]), "0 ") {
		t.Errorf("100 processes, of which 40 may be: %q, %v", line[:n], err)
	}
	wantOutput(t, v, "read max </sys/fs/cgroup/commands/pids.max; echo alive beside $max", "alive beside 40\n")
	if err := e.Remove(limit(t)); err != nil {
		t.Error(err)
	}
	// What is left of the command is ended behind its back; no loop that waits for that may need a process.
	wantOutput(t, v, "until read n </sys/fs/cgroup/commands/pids.current && test $n -lt 20; do :; done; (sleep 0; echo room)", "room\n")
}

func ofProcess(t *testing.T, v *vmm.VM) {
	if s := v.Status(); !regexp.MustCompile(`(?m)^guest [0-9a-f]{12} current$`).MatchString(s) {
		t.Errorf("status %q", s)
	}
	number := pid(t, v)
	status, err := os.ReadFile("/proc/" + number + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Seccomp:\t2\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if os.Getuid() == 0 && !strings.Contains(string(status), want) {
			t.Errorf("status has no %q:\n%s", want, status)
		}
	}
	if os.Getuid() == 0 && strings.Contains(string(status), "\nUid:\t0\t") {
		t.Errorf("QEMU runs as root:\n%s", status)
	}
	for _, ns := range []string{"mnt", "pid", "net", "ipc", "uts"} {
		host, _ := os.Readlink("/proc/self/ns/" + ns)
		if own, err := os.Readlink("/proc/" + number + "/ns/" + ns); own == host || err != nil {
			t.Errorf("QEMU has the host's namespace %s: %v", ns, err)
		}
	}
	for _, name := range []string{"proc", "home", "root", "tmp", "run", "etc/passwd", v.Dir()} {
		if _, err := os.Lstat("/proc/" + number + "/root/" + name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("QEMU sees /%s: %v", name, err)
		}
	}
	env, _ := os.ReadFile("/proc/" + number + "/environ")
	if len(env) > 0 {
		t.Errorf("QEMU has an environment: %q", env)
	}
	fds, _ := filepath.Glob("/proc/" + number + "/fd/*")
	for _, fd := range fds {
		to, _ := os.Readlink(fd)
		known := strings.Contains(to, "/log/") || strings.HasSuffix(to, "/disk.qcow2") || strings.HasSuffix(to, "/initrd") || strings.HasSuffix(to, "/image")
		if strings.HasPrefix(to, filepath.Dir(filepath.Dir(v.Dir()))) && !known {
			t.Errorf("QEMU holds %s", to)
		}
	}
}

// files checks that the workspace is one folder for both sides, and what is
// written elsewhere is in the layer.
func files(t *testing.T, v *vmm.VM) {
	work := v.WorkDir()
	os.WriteFile(filepath.Join(work, "from-host"), []byte("one\n"), 0o644)
	wantOutput(t, v, "cat from-host; echo two >from-guest; mkdir -p a/b; mv from-guest a/b/c; ln -s a/b/c link; cat link", "one\ntwo\n")
	if got, err := os.ReadFile(filepath.Join(work, "a/b/c")); string(got) != "two\n" {
		t.Errorf("the host reads %q, %v", got, err)
	}
	os.WriteFile(filepath.Join(work, "from-host"), []byte("other\n"), 0o644)
	wantOutput(t, v, "cat from-host", "other\n")
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("host's own"), 0o644)
	os.Symlink(secret, filepath.Join(work, "out"))
	if got, _ := output(t, v, "cat out ../../../../.."+secret+" 2>/dev/null"); strings.Contains(got, "host's own") {
		t.Errorf("a link leads out of the workspace: %q", got)
	}
	wantOutput(t, v, "echo kept >/root/kept; rm /etc/services; touch /usr/x 2>&1 | grep -c Read-only", "1\n")
}

// suspend has the VM go on after its process has ended, with the programs
// that ran and the files that they had open.
func suspend(t *testing.T, v *vmm.VM) {
	wantOutput(t, v, "echo in memory >/tmp/mark", "")
	counts := begin(t, v, "i=0; while :; do i=$((i+1)); echo $i >/tmp/count; sleep 0.1; done")
	before := pid(t, v)
	timed(t, "suspended", func() error { return v.Suspend(limit(t)) })
	if _, err := os.Stat("/proc/" + before); err == nil {
		t.Error("the process of a suspended VM is there")
	}
	t.Run("move", func(t *testing.T) { move(t, v) })
	timed(t, "resumed", func() error { return v.Resume(limit(t)) })
	wantOutput(t, v, "cat /tmp/mark from-host", "in memory\nother\n")
	clock(t, v)
	wantOutput(t, v, "n=0$(cat /tmp/count); until test 0$(cat /tmp/count) -gt $n; do sleep 0.1; done; echo counts", "counts\n")
	if err := counts.Remove(limit(t)); err != nil {
		t.Error(err)
	}
}

// move has the suspended VM go on in another table, which has only its archive.
func move(t *testing.T, v *vmm.VM) {
	var archive bytes.Buffer
	timed(t, "packed", func() error {
		return v.Pack(limit(t), nopCloser{&archive}, pack.Usual(), vmm.PackHooks{})
	})
	t.Logf("the archive has %d bytes", archive.Len())
	there := openTable(t, t.TempDir())
	defer there.Close(limit(t))
	n, err := there.Make(limit(t), "moved")
	if err != nil {
		t.Fatal(err)
	}
	timed(t, "unpacked", func() error {
		return n.Unpack(limit(t), io.NopCloser(&archive), pack.Options{Memory: pack.Yes}, vmm.PackHooks{}, func() {})
	})
	timed(t, "resumed elsewhere", func() error { return n.Resume(limit(t)) })
	defer n.Kill(limit(t))
	wantOutput(t, n, "hostname; cat /tmp/mark from-host", "moved\nin memory\nother\n")
	wantOutput(t, n, "n=0$(cat /tmp/count); until test 0$(cat /tmp/count) -gt $n; do sleep 0.1; done; echo counts", "counts\n")
	wantOutput(t, n, "cat /root/kept; echo theirs >/root/kept; sync; echo theirs >from-there", "kept\n")
	if _, err := os.Stat(filepath.Join(v.WorkDir(), "from-there")); err == nil {
		t.Error("what is written there is written here")
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// begin starts a shell line in the VM, which runs until it is removed.
func begin(t *testing.T, v *vmm.VM, line string) *guest.Exec {
	t.Helper()
	g, err := v.Guest()
	if err != nil {
		t.Fatal(err)
	}
	e, err := g.MakeExec(limit(t), "long")
	if err == nil {
		err = e.Ctl(limit(t), "sh "+line)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// fork has a copy of the VM go on from where it is.
func fork(t *testing.T, table *vmm.Table, v *vmm.VM) {
	timed(t, "forked live", func() error { return v.ForkLive(limit(t), "copy") })
	w, err := table.Lookup("copy")
	if err != nil {
		t.Fatal(err)
	}
	wantOutput(t, w, "hostname", "copy\n")
	wantOutput(t, v, "hostname", "dev\n")
	clock(t, v)
	clock(t, w)
	wantOutput(t, w, "cat /tmp/mark from-host; echo changed >/tmp/mark; echo changed >from-host; echo changed >/root/kept", "in memory\nother\n")
	wantOutput(t, v, "cat /tmp/mark from-host /root/kept", "in memory\nother\nkept\n")
	wantOutput(t, w, "cat /root/kept", "changed\n")
	if err := errors.Join(w.Kill(limit(t)), table.Remove(limit(t), "copy")); err != nil {
		t.Error(err)
	}
	timed(t, "forked", func() error { return v.Fork(limit(t), "copy") })
	if w, err = table.Lookup("copy"); err != nil {
		t.Fatal(err)
	}
	start(t, w)
	wantOutput(t, w, "cat from-host /root/kept; ls /tmp/mark 2>/dev/null", "other\nkept\n")
	if err := errors.Join(w.Kill(limit(t)), table.Remove(limit(t), "copy")); err != nil {
		t.Error(err)
	}
}

// timed does f and logs how long that took.
func timed(t *testing.T, what string, f func() error) {
	t.Helper()
	began := time.Now()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s in %s", what, time.Since(began).Round(time.Millisecond))
}

// crash has the guest's kernel panic.
func crash(t *testing.T, v *vmm.VM) {
	output(t, v, "echo c >/proc/sysrq-trigger")
	ctx := limit(t)
	for v.State() == vmm.Running {
		select {
		case <-ctx.Done():
			t.Fatal("the machine does not end")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if s := v.Status(); !strings.HasPrefix(s, "failed\nreason guest crashed or restarted") {
		t.Errorf("status %q", s)
	}
}

// TestServiceIsKilled has another service take up what one that was killed has
// left.
func TestServiceIsKilled(t *testing.T) {
	need.QEMU(t) // here: the service that is killed could only tell that it has nothing to tell
	table, v := vmmtest.KillService(t, openTable, "echo still here >/tmp/mark; echo here too >mark")
	defer table.Close(limit(t))
	defer v.Kill(limit(t))
	wantOutput(t, v, "cat /tmp/mark mark", "still here\nhere too\n")
}

// What is missing is said, with what to install.
func TestMissing(t *testing.T) {
	c := config(t, t.TempDir())
	c.Kernels = []string{t.TempDir()}
	if _, err := os.Stat("/boot"); err == nil {
		if list, _ := filepath.Glob("/boot/vmlinuz-*"); len(list) == 0 {
			_, err := qemu.New(c).Probe(limit(t))
			if err == nil || !strings.Contains(err.Error(), "linux-image-cloud-amd64") {
				t.Errorf("without a kernel: %v", err)
			}
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := qemu.New(c).Probe(limit(t))
	if err == nil || !strings.Contains(err.Error(), "install Debian's package qemu-") {
		t.Errorf("without programs: %v", err)
	}
}
