//go:build linux

package gvisor_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/vmm"
	"hutch/vmm/gvisor"
	"hutch/vmm/vmmtest"
)

// These tests run whole VMs: a table, the driver, and the agent in the guest.

func openTable(t testing.TB, dir string) *vmm.Table {
	t.Helper()
	program, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	table, err := vmm.Open(vmm.Options{Dir: dir, Drivers: []vmm.Driver{
		gvisor.New(gvisor.Config{Runsc: runsc(t), Guest: program, Dir: filepath.Join(dir, "gvisor")}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// output runs a shell line in the VM and returns what it prints.
func output(v *vmm.VM, line string) (string, error) { return printed(v, "sh "+line) }

// printed returns what a command prints that a control message starts.
func printed(v *vmm.VM, message string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return vmmtest.Printed(ctx, v, message)
}

func wantOutput(t testing.TB, v *vmm.VM, line, want string) {
	t.Helper()
	if got, err := output(v, line); got != want || err != nil {
		t.Errorf("%s: %q, %v; want %q", line, got, err, want)
	}
}

func TestTable(t *testing.T) {
	newBench(t)
	dir := t.TempDir()
	table := openTable(t, dir)
	v, err := table.Make(limit(t), "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Kill(context.Background()) // where the test fails early
	os.WriteFile(filepath.Join(v.Dir(), "env", "GREETING"), []byte("hello\n"), 0o644)
	if err := v.Start(limit(t)); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, v, "echo $GREETING from $(hostname); echo kept >/root/kept", "hello from dev\n")
	begin := time.Now()
	if err := v.Stop(limit(t)); err != nil {
		t.Error(err)
	}
	t.Logf("stopped in %s", time.Since(begin))
	if err := v.Start(limit(t)); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, v, "cat /root/kept", "kept\n")
	if s := v.Status(); !strings.HasPrefix(s, "running\n") || !strings.Contains(s, "\npid ") {
		t.Errorf("status %q", s)
	}
	if err := v.Stop(limit(t)); err != nil {
		t.Error(err)
	}
	if err := table.Remove(limit(t), "dev"); err != nil {
		t.Error(err)
	}
	if err := table.Close(limit(t)); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "vm")); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

func TestManySandboxes(t *testing.T) {
	newBench(t)
	table := openTable(t, t.TempDir())
	before := open(t)
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			v, err := table.MakeAnonymous(limit(t))
			if err != nil {
				t.Error(err)
				return
			}
			if err := v.Start(limit(t)); err != nil {
				t.Error(err)
				return
			}
			wantOutput(t, v, "hostname", v.Name()+"\n")
			end := v.Stop
			if i%2 == 0 {
				end = v.Kill
			}
			if err := end(limit(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if list := table.List(); len(list) != 0 {
		t.Errorf("VMs are left: %v", list)
	}
	if err := table.Close(limit(t)); err != nil {
		t.Error(err)
	}
	if after := open(t); after > before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// open returns how many descriptors this process has.
func open(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestServiceIsKilled has another service take up what one that was killed has
// left.
func TestServiceIsKilled(t *testing.T) {
	newBench(t)
	agent, err := agentProgram()
	if err != nil {
		t.Fatal(err)
	}
	guest, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	table, v := vmmtest.KillService(t, openTable, "echo still here >/tmp/mark", "HUTCH_TEST_AGENT="+agent, "HUTCH_TEST_GUEST="+guest)
	defer func() {
		v.Kill(limit(t))
		table.Close(limit(t))
	}()
	wantOutput(t, v, "cat /tmp/mark", "still here\n")
	pid := strings.Split(v.Status(), "pid ")[1]
	pid = pid[:strings.IndexByte(pid, '\n')]
	state := filepath.Dir(filepath.Dir(v.Dir()))
	if fds, err := filepath.Glob("/proc/" + pid + "/fd/*"); err == nil {
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, state) && !strings.Contains(to, "/log/") {
				t.Errorf("the sandbox holds %s", to)
			}
		}
	}
}

// BenchmarkLife measures what a user sees: make, start, the output of a first
// command, stop and remove.
func BenchmarkLife(b *testing.B) {
	newBench(b)
	for _, anonymous := range []bool{false, true} {
		b.Run(map[bool]string{false: "named", true: "anonymous"}[anonymous], func(b *testing.B) {
			table := openTable(b, b.TempDir())
			defer table.Close(context.Background())
			var all, start, first, stop []time.Duration
			for i := 0; b.Loop(); i++ {
				t0 := time.Now()
				var v *vmm.VM
				var err error
				if anonymous {
					v, err = table.MakeAnonymous(context.Background())
				} else {
					v, err = table.Make(context.Background(), "dev")
				}
				if err != nil {
					b.Fatal(err)
				}
				t1 := time.Now()
				if err := v.Start(context.Background()); err != nil {
					b.Fatal(err)
				}
				t2 := time.Now()
				if out, err := output(v, "echo ok"); out != "ok\n" {
					b.Fatal(out, err)
				}
				t3 := time.Now()
				if err := v.Stop(context.Background()); err != nil {
					b.Fatal(err)
				}
				t4 := time.Now()
				if !anonymous {
					if err := table.Remove(context.Background(), "dev"); err != nil {
						b.Fatal(err)
					}
				}
				all = append(all, time.Since(t0))
				start, first, stop = append(start, t2.Sub(t1)), append(first, t3.Sub(t2)), append(stop, t4.Sub(t3))
			}
			report(b, all, "all")
			report(b, start, "start")
			report(b, first, "first")
			report(b, stop, "stop")
		})
	}
}
