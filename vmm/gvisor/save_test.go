//go:build linux

package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/vmm/replica"
)

// counter is a program of the guest that counts, in memory and on disk. It has
// begun when the line has ended.
const counter = `nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n >/workspace/n; done' >/dev/null 2>&1 & echo $! >/tmp/pid
until test -e /workspace/n; do :; done`

// counts says in the guest whether the counter runs.
const counts = `n=$(cat /workspace/n); while [ "$n" = "$(cat /workspace/n)" ]; do :; done; echo yes`

func (g *guest) file(path string) string {
	g.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(data)
}

// save pauses the machine and saves it.
func (g *guest) save() string {
	g.t.Helper()
	if err := g.machine.Pause(limit(g.t)); err != nil {
		g.t.Fatal(err)
	}
	dir := filepath.Join(g.t.TempDir(), "saved")
	if err := os.Mkdir(dir, 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := g.machine.Save(limit(g.t), dir); err != nil {
		g.t.Fatal(err)
	}
	return dir
}

// restore goes on with g from dir.
func (b *bench) restore(g *guest, dir string) {
	b.t.Helper()
	if err := os.MkdirAll(g.spec.Dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	m, err := b.driver.Restore(limit(b.t), g.spec, dir)
	if err != nil {
		log, _ := os.ReadFile(g.spec.Log)
		b.t.Fatalf("%v\n%s", err, log)
	}
	g.machine = m
	b.t.Cleanup(func() { m.Kill(context.Background()) })
	g.meet()
}

func TestPause(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	g.sh(counter)
	g.sh(counts)
	n := filepath.Join(g.spec.Work, "n")
	for range 2 { // the second time it does nothing
		if err := g.machine.Pause(limit(t)); err != nil {
			t.Fatal(err)
		}
	}
	before := g.file(n)
	state := g.machine.State()
	g.machine.Release()
	m, err := b.driver.Adopt(limit(t), g.spec, state)
	if err != nil {
		t.Fatal(err)
	}
	g.machine = m
	dir := g.save()
	if after := g.file(n); after != before {
		t.Errorf("a paused guest has counted from %s to %s", before, after)
	}
	for range 2 {
		if err := m.Resume(limit(t)); err != nil {
			t.Fatal(err)
		}
	}
	g.meet()
	if got := g.sh(counts); got != "yes\n" {
		t.Errorf("after a resume: %q", got)
	}
	m.Pause(limit(t))
	if err := m.Kill(limit(t)); err != nil {
		t.Errorf("kill of a paused machine: %v", err)
	}
	g.gone()
	if list, _ := os.ReadDir(dir); len(list) == 0 {
		t.Error("what was saved went with the machine")
	}
}

// TestPauseOfStuck has a sandbox not obey: who gives up waiting for it is let
// go, and it can be killed.
func TestPauseOfStuck(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	pid := g.machine.PIDs()[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(limit(t))
	for runs(t, pid) { // until a thread takes the signal, the others go on
		if ctx.Err() != nil {
			t.Fatalf("process %d does not stop", pid)
		}
	}
	paused := make(chan error, 1)
	go func() { paused <- g.machine.Pause(ctx) }()
	cancel()
	if err := <-paused; !errors.Is(err, context.Canceled) {
		t.Errorf("pause: %v", err)
	}
	if err := g.machine.Kill(limit(t)); err != nil {
		t.Errorf("kill: %v", err)
	}
	g.gone()
}

// runs says whether a thread of a process is not stopped.
func runs(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d: %d threads, %v", pid, len(threads), err)
	}
	return slices.ContainsFunc(threads, func(name string) bool {
		status, err := os.ReadFile(name)
		return err == nil && !strings.Contains(string(status), "\nState:\tT")
	})
}

// TestRestore restores a machine in its own place, and a copy in another's.
func TestRestore(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	g.sh("echo layer >/root/f; echo memory >/tmp/f")
	g.sh("exec >/dev/null 2>&1 9<>/root/deleted; echo deleted >&9; rm /root/deleted; sleep 1000 & echo $! >/tmp/sleep")
	g.sh(counter)
	dir := g.save()
	copied := b.spec("copy")
	for _, pair := range [][2]string{{g.spec.Layer, copied.spec.Layer}, {g.spec.Work, copied.spec.Work}} {
		os.Remove(pair[1])
		if _, err := replica.New(pair[0], pair[1]).Copy(limit(t)); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(copied.spec.Work, "mine"), []byte("mine"), 0o644)
	g.machine.Kill(limit(t))
	g.gone()
	for _, g := range []*guest{g, copied} {
		b.restore(g, dir)
		for line, want := range map[string]string{
			"hostname":                           g.spec.Name + "\n",
			"cat /root/f /tmp/f":                 "layer\nmemory\n",
			"kill -0 $(cat /tmp/pid) && echo ok": "ok\n",
			"cat /proc/$(cat /tmp/sleep)/fd/9":   "deleted\n",
			counts:                               "yes\n",
		} {
			if got := g.sh(line); got != want {
				t.Errorf("%s: %s: %q, want %q", g.spec.Name, line, got, want)
			}
		}
	}
	if got := g.sh("ls /workspace; echo mine >/root/g"); got != "n\n" {
		t.Errorf("the first sees %q", got)
	}
	if got := copied.sh("ls /workspace; ls /root/g 2>/dev/null"); !strings.HasPrefix(got, "mine\nn\n") || strings.Contains(got, "/root/g") {
		t.Errorf("the copy sees %q", got)
	}
	if err := copied.machine.Kill(limit(t)); err != nil {
		t.Error(err)
	}
	copied.gone()
	if got := g.sh(counts); got != "yes\n" {
		t.Errorf("after the copy's end the first says %q", got)
	}
}

func TestRestoreFails(t *testing.T) {
	b := newBench(t)
	g := b.start("dev")
	dir := g.save()
	g.machine.Kill(limit(t))
	g.gone()
	image := filepath.Join(dir, "checkpoint.img")
	whole := g.file(image)
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"half", func() error { return os.Truncate(image, int64(len(whole)/2)) }},
		{"rubbish", func() error { return os.WriteFile(image, []byte(strings.Repeat("rubbish ", 1000)), 0o600) }},
		{"nothing", func() error { return os.Remove(image) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			os.MkdirAll(g.spec.Dir, 0o755)
			m, err := b.driver.Restore(limit(t), g.spec, dir)
			if err == nil {
				m.Kill(limit(t))
				t.Fatal("it restores")
			}
			t.Log(err)
			if left, _ := os.ReadDir(g.spec.Ports); len(left) != 0 {
				t.Errorf("sockets are left: %v", left)
			}
			files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, file := range files {
				if data, _ := os.ReadFile(file); strings.Contains(string(data), g.spec.Dir) {
					t.Errorf("left %s: %q", file, data)
				}
			}
			os.RemoveAll(g.spec.Dir)
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	bn := newBench(b)
	g := bn.start("dev")
	var down, up []time.Duration
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "saved")
		os.Mkdir(dir, 0o755)
		begin := time.Now()
		if err := errors.Join(g.machine.Pause(limit(b)), g.machine.Save(limit(b), dir), g.machine.Kill(limit(b))); err != nil {
			b.Fatal(err)
		}
		down = append(down, time.Since(begin))
		os.MkdirAll(g.spec.Dir, 0o755)
		begin = time.Now()
		m, err := bn.driver.Restore(limit(b), g.spec, dir)
		if err != nil {
			b.Fatal(err)
		}
		g.machine = m
		g.meet()
		up = append(up, time.Since(begin))
		os.RemoveAll(dir)
	}
	g.machine.Kill(limit(b))
	report(b, down, "save")
	report(b, up, "restore")
}
