//go:build linux

package main_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs/need"
	"hutch/relay/guest"
	"hutch/vmm"
	"hutch/vmm/image"
	"hutch/vmm/qemu"
	"hutch/vmm/qemu/kernel"
)

// patience is how long a line of shell may take in a machine that is many
// times slower than this one, which others use too.
const patience = 10 * time.Minute

// A linux is a virtual machine with Debian's full kernel, which has a 9P
// client. What it dials on port 5002 is a service's tree.
type linux struct {
	t    *testing.T
	work string // its /workspace
	g    *guest.Guest
	last int // number of the last command
}

// bootLinux boots a machine that goes with the test.
func bootLinux(t *testing.T, s *service) *linux {
	t.Helper()
	full := filepath.Join(s.bin, "kernel-full")
	k, err := kernel.Find("", full)
	if err != nil {
		need.Missing(t, err.Error())
	}
	modules, err := k.Load("9p", "9pnet_fd?")
	if err != nil {
		need.Missing(t, err.Error())
	}
	l := &linux{t: t, work: filepath.Join(s.dir, "linux", "work"), g: guest.NewHost()} // a slow machine may take its time
	spec := vmm.Spec{Name: "linux", Hostname: "linux", Kernel: k.Image, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, CPUs: 1, Conn: l.conn(s)}
	for name, to := range map[string]*string{"machine": &spec.Dir, "layer": &spec.Layer, "work": &spec.Work, "ports": &spec.Ports} {
		*to = filepath.Join(s.dir, "linux", name)
		if err := os.MkdirAll(*to, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	spec.Serial, spec.Log = filepath.Join(s.dir, "serial"), filepath.Join(s.dir, "qemu.log")
	images := image.Open(filepath.Join(s.dir, "linux", "images"))
	t.Cleanup(images.Close)
	if spec.Image, err = images.Lookup(image.Host); err != nil {
		t.Fatal(err)
	}
	l.put(modules)
	d := qemu.New(qemu.Config{Guest: filepath.Join(s.bin, "guest"), Dir: filepath.Join(s.dir, "linux", "qemu"), Kernels: []string{full}})
	if how, err := d.Probe(t.Context()); err != nil {
		need.Missing(t, err.Error())
	} else {
		t.Log("qemu", how)
	}
	m, err := d.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Kill(context.Background())
		l.g.Close()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-m.Done()
		cancel()
	}()
	if err := l.g.Ready(ctx); err != nil {
		text, _ := os.ReadFile(spec.Serial)
		t.Fatalf("no agent: %v: %s", err, text)
	}
	return l
}

// conn takes the machine's connections.
func (l *linux) conn(s *service) func(uint32, net.Conn) {
	return func(port uint32, c net.Conn) {
		if port == vmm.PortAgent {
			l.g.Attach(c)
			return
		}
		far, err := net.Dial("unix", strings.TrimPrefix(s.addr, "unix!"))
		if err != nil {
			c.Close()
			l.t.Error(err)
			return
		}
		go func() {
			var both sync.WaitGroup
			both.Go(func() { io.Copy(c, far); c.Close() })
			both.Go(func() { io.Copy(far, c); far.Close() })
			both.Wait()
		}()
	}
}

// put puts what the machine needs into its workspace.
func (l *linux) put(modules []kernel.Module) {
	l.t.Helper()
	for i, m := range modules {
		if err := os.WriteFile(filepath.Join(l.work, fmt.Sprintf("%02d-%s.ko", i, m.Name)), m.Data, 0o644); err != nil {
			l.t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(l.work, "v9fs"), "./testdata/v9fs")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		l.t.Fatalf("go build: %v\n%s", err, out)
	}
	git := exec.Command("sh", "-c", "git init -q origin && cd origin && seq 1000 >file && "+
		"ln -s file link && git add . && git -c user.email=a@b -c user.name=n commit -qm first")
	git.Dir = l.work
	if out, err := git.CombinedOutput(); err != nil {
		l.t.Fatalf("git: %v\n%s", err, out)
	}
	script, err := os.ReadFile("testdata/v9fs/check.sh")
	if err == nil {
		err = os.WriteFile(filepath.Join(l.work, "check.sh"), script, 0o644)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// sh runs a line of shell in the machine, and returns what it says.
func (l *linux) sh(line string) (out string, ok bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	l.last++
	e, err := l.g.MakeExec(ctx, fmt.Sprint(l.last))
	if err == nil {
		err = e.Ctl(ctx, "sh exec 2>&1; "+line)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	out, status := l.all(ctx, e, "stdout"), l.all(ctx, e, "wait")
	return out, strings.HasPrefix(status, "0 ")
}

// all reads a stream of a command up to its end.
func (l *linux) all(ctx context.Context, e *guest.Exec, name string) string {
	l.t.Helper()
	h, err := e.Open(ctx, name, os.O_RDONLY)
	if err != nil {
		l.t.Fatal(err)
	}
	defer h.Close()
	var all []byte
	p := make([]byte, 32<<10)
	for {
		n, err := h.ReadAt(ctx, p, int64(len(all)))
		if err != nil {
			l.t.Fatal(err)
		}
		if n == 0 {
			return string(all)
		}
		all = append(all, p[:n]...)
	}
}

// TestLinux mounts the tree with the 9P client of a Linux kernel, several
// times at once, and uses it as people do.
func TestLinux(t *testing.T) {
	t.Parallel()
	need.Patience(t)
	need.Root(t)
	need.Tool(t, "git")
	need.Tool(t, "vim")
	s := serve(t, false)
	s.vm("dev")
	l := bootLinux(t, s)
	do := func(line string) {
		t.Helper()
		if out, ok := l.sh(line); !ok {
			t.Fatalf("%s: %s", line, out)
		}
	}
	do("/workspace/v9fs load /workspace/*.ko")
	do("git config --global --add safe.directory '*'")
	for _, dialect := range []string{"9p2000.L", "9p2000"} {
		for _, cache := range []string{"none", "loose"} {
			dir := "/mnt/" + dialect + "-" + cache
			do(fmt.Sprintf("/workspace/v9fs mount %s version=%s,cache=%s,msize=131096,access=any,aname=/", dir, dialect, cache))
			t.Run(dialect+"/"+cache, func(t *testing.T) {
				t.Cleanup(func() {
					if trace, _ := os.ReadFile(filepath.Join(l.work, "trace")); t.Failed() {
						t.Logf("%s", trace)
					}
				})
				out, ok := l.sh(fmt.Sprintf("sh -x /workspace/check.sh %s %s %s 2>/workspace/trace", dir, dialect, cache))
				t.Log(out)
				if !ok {
					t.Fail()
				}
			})
		}
	}
	do("umount /mnt/*")
}
