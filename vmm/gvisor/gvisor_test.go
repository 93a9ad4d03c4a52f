//go:build linux

package gvisor_test

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
	"hutch/vmm"
	"hutch/vmm/gvisor"
	"hutch/vmm/image"
	"hutch/vmm/process"
)

// runsc returns the runsc to test with: $HUTCH_RUNSC, or the one that mk
// builds into bin/.
func runsc(t testing.TB) string {
	t.Helper()
	path := os.Getenv("HUTCH_RUNSC")
	if path == "" {
		path, _ = filepath.Abs("../../bin/runsc")
	}
	return need.File(t, path)
}

// program returns a function that builds a program of testdata for the guest,
// or takes the one that a parent test has built.
func program(name, env string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		if path := os.Getenv(env); path != "" {
			return path, nil
		}
		path := filepath.Join(built, name)
		cmd := exec.Command("go", "build", "-o", path, "./testdata/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	})
}

var (
	built        string // the folder of what was built
	guestProgram = program("guest", "HUTCH_TEST_GUEST")
	agentProgram = program("agent", "HUTCH_TEST_AGENT")
)

func TestMain(m *testing.M) {
	if os.Getenv("HUTCH_TEST_AGENT") != "" { // a child of a test that has built all
		os.Exit(m.Run())
	}
	var err error
	if built, err = os.MkdirTemp("", "hutch-guest-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// A bench is a state folder with a driver, and machines made there.
type bench struct {
	t      testing.TB
	dir    string
	driver *gvisor.Driver
	image  image.Image
}

func newDriver(t testing.TB, dir string) *gvisor.Driver {
	t.Helper()
	guest, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	return gvisor.New(gvisor.Config{Runsc: runsc(t), Guest: guest, Dir: filepath.Join(dir, "gvisor")})
}

func newBench(t testing.TB) *bench {
	t.Helper()
	dir := t.TempDir()
	need.Sweep(t, dir)
	b := &bench{t: t, dir: dir, driver: newDriver(t, dir)}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if how, err := b.driver.Probe(ctx); err != nil {
		need.Missing(t, "no gVisor: "+err.Error())
	} else {
		t.Log("gvisor", how)
	}
	var err error
	if b.image, err = image.Open(filepath.Join(dir, "images")).Lookup(image.Host); err != nil {
		t.Fatal(err)
	}
	return b
}

// A guest is the host's view of one machine.
type guest struct {
	t       testing.TB
	spec    vmm.Spec
	machine vmm.Machine
	conns   chan net.Conn
	c       net.Conn
	in      *bufio.Reader
}

func (b *bench) spec(name string) *guest {
	b.t.Helper()
	dir := filepath.Join(b.dir, "vm", name)
	g := &guest{t: b.t, conns: make(chan net.Conn, 16)}
	g.spec = vmm.Spec{
		Name: name, Hostname: name, Image: b.image, Env: []string{"PATH=/usr/bin:/bin:/opt/hutch/bin", "MARK=" + name},
		Dir: filepath.Join(dir, "machine"), Layer: filepath.Join(dir, "layer"), Work: filepath.Join(dir, "work"),
		Ports: filepath.Join(dir, "ports"), Serial: filepath.Join(dir, "serial"), Log: filepath.Join(dir, "log"),
		Conn: func(port uint32, c net.Conn) {
			if port != vmm.PortAgent {
				c.Close()
				return
			}
			g.conns <- c
		},
	}
	for _, d := range []string{g.spec.Layer, g.spec.Work, g.spec.Ports} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	return g
}

func (b *bench) start(name string) *guest {
	b.t.Helper()
	g := b.spec(name)
	b.restart(g)
	return g
}

func (b *bench) restart(g *guest) {
	b.t.Helper()
	if err := os.MkdirAll(g.spec.Dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	m, err := b.driver.Start(limit(b.t), g.spec)
	if err != nil {
		b.t.Fatal(err)
	}
	g.machine = m
	b.t.Cleanup(func() { m.Kill(context.Background()) })
	g.meet()
}

// meet takes the guest's next connection.
func (g *guest) meet() {
	g.t.Helper()
	select {
	case g.c = <-g.conns:
		g.in = bufio.NewReader(g.c)
		g.c.SetDeadline(time.Now().Add(2 * time.Minute))
	case <-g.machine.Done():
		serial, _ := os.ReadFile(g.spec.Serial)
		g.t.Fatalf("machine ended: %v\n%s", g.machine.Err(), serial)
	case <-limit(g.t).Done():
		g.t.Fatal("the guest does not connect")
	}
}

// sh returns what a command in the guest prints.
func (g *guest) sh(line string) string {
	g.t.Helper()
	if _, err := fmt.Fprintln(g.c, strings.ReplaceAll(line, "\n", ";")); err != nil {
		g.t.Fatal(err)
	}
	size, err := g.in.ReadString('\n')
	if err != nil {
		g.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(size))
	if err != nil {
		g.t.Fatal(err)
	}
	out := make([]byte, n)
	if _, err := io.ReadFull(g.in, out); err != nil {
		g.t.Fatal(err)
	}
	return string(out)
}

// gone waits for the machine's end and checks that nothing of it is left.
func (g *guest) gone() error {
	g.t.Helper()
	select {
	case <-g.machine.Done():
	case <-limit(g.t).Done():
		g.t.Fatal("the machine does not end")
	}
	if _, err := os.Stat(g.spec.Dir); !errors.Is(err, os.ErrNotExist) {
		g.t.Errorf("the driver's folder is still there: %v", err)
	}
	if left, _ := os.ReadDir(g.spec.Ports); len(left) != 0 {
		g.t.Errorf("sockets are left: %v", left)
	}
	for _, pid := range g.machine.PIDs() {
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(data), g.spec.Dir) {
			g.t.Errorf("process %d is left: %q", pid, data)
		}
	}
	if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), g.spec.Dir) {
		g.t.Errorf("mounts are left:\n%s", mounts)
	}
	return g.machine.Err()
}

func limit(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRunAndShutDown(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	for line, want := range map[string]string{
		"hostname":                               "dev\n",
		"id -u":                                  "0\n",
		"echo $MARK":                             "dev\n",
		"pwd":                                    "/\n",
		"readlink -f /opt/hutch/bin/hutch-relay": "/opt/hutch/bin/hutch-guest\n",
		"echo hi >/workspace/f; cat /workspace/f":      "hi\n",
		"test -w /tmp && test -c /dev/null && echo ok": "ok\n",
		"command -v hutch-relay":                       "/opt/hutch/bin/hutch-relay\n",
	} {
		if got := g.sh(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got, err := os.ReadFile(filepath.Join(g.spec.Work, "f")); string(got) != "hi\n" {
		t.Errorf("the workspace on the host has %q, %v", got, err)
	}
	fmt.Fprintln(g.c, "shutdown")
	if err := g.gone(); err != nil {
		t.Errorf("a guest that shut down ended with %v", err)
	}
	if serial, _ := os.ReadFile(g.spec.Serial); !strings.Contains(string(serial), "guest: shut down") {
		t.Errorf("serial log is %q", serial)
	}
}

func TestLayerIsKeptAndImageIsNot(t *testing.T) {
	b := newBench(t)
	if how, _ := b.driver.Probe(limit(t)); strings.Contains(how, "layer=memory") {
		need.Missing(t, "no overlay file systems")
	}
	g := b.start("dev")
	g.sh("echo mine >/etc/mine; rm /etc/services; mkdir -p /root/a/b; chmod 700 /root/a")
	if err := g.machine.Stop(limit(t)); err != nil {
		t.Fatal(err)
	}
	g.gone()
	b.restart(g)
	if got := g.sh("cat /etc/mine; ls /etc/services 2>/dev/null; ls -d /root/a/b"); got != "mine\n/root/a/bexit status 2" && got != "mine\n/root/a/b\n" {
		t.Errorf("after a restart the guest sees %q", got)
	}
	other := b.start("other")
	if got := other.sh("cat /etc/mine 2>&1; ls /etc/services"); !strings.Contains(got, "/etc/services") || strings.Contains(got, "mine\n") {
		t.Errorf("another VM sees %q", got)
	}
}

// What must not be reachable from inside.
func TestIsolation(t *testing.T) {
	b := newBench(t)
	secret := filepath.Join(b.dir, "secret")
	os.WriteFile(secret, []byte("host's own"), 0o644)
	host := filepath.Join(b.dir, "host.sock")
	l, err := net.Listen("unix", host)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := b.start("other")
	g := b.start("dev")
	os.Symlink(secret, filepath.Join(g.spec.Work, "link"))
	os.Symlink(b.dir, filepath.Join(g.spec.Work, "up"))
	for _, line := range []string{
		"cat " + secret, "cat /workspace/link", "ls /workspace/up/vm", "cat /workspace/../../../" + secret,
		"cat /proc/1/root" + secret, "cat /etc/shadow", "ls /var/log/*", "ls /home/*",
		"ls " + other.spec.Ports, "ls /run/hutch/../../" + other.spec.Ports,
		"echo x >/usr/bin/x", "echo x >/run/hutch/x", "rm -f /run/hutch/5000 && echo gone", "ln -s / /run/hutch/root",
		"echo x >/opt/hutch/bin/hutch-guest", "mount -o remount,rw /usr", "mknod /workspace/sda b 8 0",
		"mount -t proc proc /mnt", "cat /dev/sda", "cat /dev/vda", "cat /dev/mem", "ls /sys/fs/cgroup/memory/*",
	} {
		got := g.sh(line)
		if !strings.Contains(got, "exit status") || strings.Contains(got, "host's own") {
			t.Errorf("%s: %q", line, got)
		}
	}
	if got := g.sh("cat /proc/net/dev"); strings.Contains(got, "eth") {
		t.Errorf("the guest has a network: %s", got)
	}
	if got := g.sh("ls /run/hutch"); got != "5000\n5002\n" {
		t.Errorf("the guest's ports are %q", got)
	}
	dial := `python3 -c 'import socket,sys;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);print("connected")' `
	if got := g.sh(dial + "/run/hutch/5002"); got != "connected\n" {
		if strings.Contains(got, "not found") {
			need.Missing(t, "no python3 to dial with")
		}
		t.Errorf("own port: %q", got)
	}
	os.Symlink(host, filepath.Join(g.spec.Work, "sock"))
	for _, path := range []string{host, "/workspace/sock", "/proc/self/root" + host, filepath.Join(other.spec.Ports, "5002"), "/workspace/up/host.sock"} {
		if got := g.sh(dial + path + " 2>&1"); !strings.Contains(got, "exit status") {
			t.Errorf("dial %s: %q", path, got)
		}
	}
	if got := g.sh(`python3 -c 'import socket;socket.create_connection(("1.1.1.1",53),3)' 2>&1`); !strings.Contains(got, "exit status") {
		t.Errorf("network: %q", got)
	}
}

func TestEnds(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name string
		end  func(g *guest)
		want string
	}{
		{"stop", func(g *guest) { g.machine.Stop(limit(t)) }, "sandbox ended: exit status"},
		{"kill", func(g *guest) { g.machine.Kill(limit(t)) }, "sandbox ended: signal killed"},
		{"sandbox", func(g *guest) { syscall.Kill(g.machine.PIDs()[0], syscall.SIGKILL) }, "sandbox ended: signal killed"},
		{"gofer", func(g *guest) { syscall.Kill(g.machine.PIDs()[1], syscall.SIGKILL) }, "gofer ended: signal killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := b.start(c.name)
			c.end(g)
			err := g.gone()
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	state, pids := g.machine.State(), g.machine.PIDs()
	g.sh("echo was here >/tmp/f")
	g.machine.Release()
	g.c.Close()
	for _, state := range [][]byte{state, nil} { // nil: the earlier process had no time to note it
		m, err := b.driver.Adopt(limit(t), g.spec, state)
		if err != nil {
			t.Fatal(err)
		}
		g.machine = m
		g.meet()
		if got := g.sh("cat /tmp/f"); got != "was here\n" {
			t.Errorf("the adopted guest says %q", got)
		}
		if got := m.PIDs(); got[0] != pids[0] {
			t.Errorf("adopted %v, started %v", got, pids)
		}
		m.Release()
		g.c.Close()
	}
	m, err := b.driver.Adopt(limit(t), g.spec, state)
	if err != nil {
		t.Fatal(err)
	}
	g.machine = m
	m.Kill(limit(t))
	g.gone()
	for _, state := range [][]byte{state, nil, []byte("rubbish"), []byte(fmt.Sprintf(`{"sandbox":%d,"gofer":1}`, os.Getpid()))} {
		if _, err := b.driver.Adopt(limit(t), g.spec, state); err == nil || err.Error() != "sandbox ended while hutchd was away" {
			t.Errorf("a machine that ended is adopted: %v", err)
		}
	}
}

func TestAdoptSweepsHalfAMachine(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	state, pids := g.machine.State(), g.machine.PIDs()
	g.machine.Release()
	fd, err := unix.PidfdOpen(pids[1], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	syscall.Kill(pids[1], syscall.SIGKILL)
	for err = unix.EINTR; err == unix.EINTR; { // until it has ended
		_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
	}
	if _, err := b.driver.Adopt(limit(t), g.spec, state); err == nil {
		t.Error("adopted without a gofer")
	}
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pids[0])); err == nil && len(data) > 0 {
		t.Errorf("the sandbox still runs: %q", data)
	}
}

// notRunsc returns the head of a program that needs no interpreter, and nothing
// of what is to follow.
func notRunsc(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "runsc")
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...)
	head[20] = 1
	if err := os.WriteFile(path, head, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStartFails(t *testing.T) {
	b := newBench(t)
	good, _ := guestProgram()
	for _, c := range []struct {
		name string
		cfg  gvisor.Config
		want string
	}{
		{"no runsc", gvisor.Config{Runsc: "/nowhere/runsc", Guest: good}, "file does not exist: no runsc program at /nowhere/runsc"},
		{"no guest", gvisor.Config{Runsc: runsc(t), Guest: "/nowhere/guest"}, "file does not exist: no guest program at /nowhere/guest"},
		{"runsc is not static", gvisor.Config{Runsc: "/bin/false", Guest: good}, "not supported: runsc program /bin/false is not static: build it with CGO_ENABLED=0"},
		{"runsc is not runsc", gvisor.Config{Runsc: notRunsc(t), Guest: good}, "not supported: no platform works: systrap: "},
		{"no such platform", gvisor.Config{Runsc: runsc(t), Guest: good, Platform: "steam"}, "not supported: no platform works: steam: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Dir = filepath.Join(t.TempDir(), "gvisor")
			d := gvisor.New(c.cfg)
			g := b.spec("x")
			os.MkdirAll(g.spec.Dir, 0o755)
			_, err := d.Start(limit(t), g.spec)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if _, perr := d.Probe(limit(t)); perr == nil || perr.Error() != err.Error() {
				t.Errorf("probe says %v, start %v", perr, err)
			}
			if left, _ := os.ReadDir(g.spec.Ports); len(left) != 0 {
				t.Errorf("sockets are left: %v", left)
			}
			os.RemoveAll(g.spec.Dir)
		})
	}
}

func TestStartIsInterrupted(t *testing.T) {
	b := newBench(t)
	for _, after := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 40 * time.Millisecond} {
		g := b.spec("x" + after.String())
		os.MkdirAll(g.spec.Dir, 0o755)
		ctx, cancel := context.WithTimeout(context.Background(), after)
		m, err := b.driver.Start(ctx, g.spec)
		cancel()
		if err == nil {
			m.Kill(limit(t))
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %s: %v", after, err)
		}
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			if data, _ := os.ReadFile(file); strings.Contains(string(data), g.spec.Dir) {
				t.Errorf("after %s: left %s: %q", after, file, data)
			}
		}
	}
}

func TestProcessors(t *testing.T) {
	b := newBench(t)
	g := b.spec("dev")
	g.spec.CPUs = 1
	b.restart(g)
	if got := g.sh("nproc"); got != "1\n" {
		t.Errorf("the guest has %q processors", got)
	}
}

func BenchmarkStart(b *testing.B) {
	bn := newBench(b)
	var up, down []time.Duration
	for i := 0; b.Loop(); i++ {
		g := bn.spec("dev" + strconv.Itoa(i))
		os.MkdirAll(g.spec.Dir, 0o755)
		begin := time.Now()
		m, err := bn.driver.Start(context.Background(), g.spec)
		if err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		<-g.conns
		up = append(up, time.Since(begin))
		if i == 0 {
			b.ReportMetric(float64(process.Memory(m.PIDs()))/(1<<20), "MiB")
			b.ReportMetric(float64(started.Sub(begin).Microseconds())/1000, "first-runsc-ms")
		}
		begin = time.Now()
		m.Kill(context.Background())
		down = append(down, time.Since(begin))
	}
	report(b, up, "up")
	report(b, down, "kill")
}

func report(b *testing.B, d []time.Duration, name string) {
	slices.Sort(d)
	ms := func(q float64) float64 { return float64(d[int(q*float64(len(d)-1))].Microseconds()) / 1000 }
	b.ReportMetric(ms(0.5), name+"-p50-ms")
	b.ReportMetric(ms(0.99), name+"-p99-ms")
}
