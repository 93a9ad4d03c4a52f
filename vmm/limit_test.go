package vmm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/vmm"
)

// configured makes a VM with a config and starts it.
func (w *world) configured(name, config string) *vmm.VM {
	w.Helper()
	v := w.make(name)
	if err := v.SetConfig(w.limit(), config); err != nil {
		w.Fatal(err)
	}
	if err := v.Start(w.limit()); err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) status(v *vmm.VM, want ...string) {
	w.Helper()
	text := v.Status()
	for _, line := range want {
		if !strings.Contains(text, "\n"+line) {
			w.Errorf("status has no %q: %s", line, text)
		}
	}
}

func TestTTL(t *testing.T) {
	w := newWorld(t)
	v := w.configured("dev", "ttl 1s\n")
	w.await("dev limit ttl: it ran for 1s")
	w.await("dev stopped ttl: it ran for 1s")
	w.is(v, vmm.Stopped)
	w.status(v, "reason ttl: it ran for 1s\n", "ttl 1s\n")
	if err := v.Start(w.limit()); err != nil { // and it has its time again
		t.Error(err)
	}
}

// TestTTLOverRestart has the time of a VM end while no table is open.
func TestTTLOverRestart(t *testing.T) {
	w := newWorld(t)
	w.configured("dev", "ttl 1h\n")
	w.close()
	w.began("dev", time.Now().Add(-2*time.Hour))
	w.open()
	w.await("dev stopped ttl: it ran for 1h")
}

// began has the VM called name have begun at a time. No table is open.
func (w *world) began(name string, at time.Time) {
	w.Helper()
	path := filepath.Join(w.dir, "vm", name, "state")
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	text = regexp.MustCompile(`"began":"[^"]*"`).ReplaceAll(text, []byte(`"began":"`+at.Format(time.RFC3339Nano)+`"`))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		w.Fatal(err)
	}
}

func TestIdle(t *testing.T) {
	w := newWorld(t)
	v := w.configured("dev", "idle 1s\n")
	w.await("dev limit idle: it was not used for 1s")
	w.await("dev stopped idle: it was not used for 1s")
	w.status(v, "reason idle: it was not used for 1s\n")
}

// TestRunningIsUse has a command run all the while: only its end lets the VM
// be idle. Until it runs the VM is busy, and its time is up soon after.
func TestRunningIsUse(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.hooks.Busy = func(*vmm.VM) bool { return true }
	w.open()
	v := w.configured("dev", "idle 2s\nttl 1h\n")
	g, err := v.Guest()
	if err != nil {
		t.Fatal(err)
	}
	e, err := g.MakeExec(w.limit(), "t")
	if err == nil {
		err = e.Ctl(w.limit(), "exec sleep 1000")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.close()
	w.hooks.Busy = nil
	w.began("dev", time.Now().Add(5*time.Second-time.Hour))
	w.open()
	w.await("dev stopped ttl: it ran for 1h")
}

func TestBusyIsUse(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.hooks.Busy = func(*vmm.VM) bool { return true }
	w.open()
	w.configured("dev", "idle 2s\nttl 4s\n")
	w.await("dev stopped ttl: it ran for 4s")
}

func TestIdleAnonymous(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.MakeAnonymous(w.limit())
	if err == nil {
		err = v.SetConfig(w.limit(), "idle 1s\n")
	}
	if err == nil {
		err = v.Start(w.limit())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.await("1 stopped idle: it was not used for 1s")
	w.await("1 removed")
}

func TestDisk(t *testing.T) {
	w := newWorld(t)
	v := w.configured("dev", "disk 4MiB\n")
	w.status(v, "disk 0.0MiB of 4MiB by measuring\n")
	big := filepath.Join(v.WorkDir(), "big")
	if err := os.WriteFile(big, make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(v.Dir(), "layer", "more"), make([]byte, 2<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	const why = "disk: more than 4.0MiB are used, 4MiB may be"
	w.await("dev limit " + why)
	w.await("dev stopped " + why)
	err := v.Start(w.limit())
	wantErr(t, err, "no space left on device: "+why+": remove files from work, or set disk")
	if !errors.Is(err, fs.ErrNoSpace) {
		t.Error(err)
	}
	w.is(v, vmm.Stopped)
	os.Remove(big)
	if err := v.Start(w.limit()); err != nil {
		t.Error(err)
	}
	w.status(v, "disk 2.0MiB of 4MiB by measuring\n")
}

// TestNotEnforced has a driver that limits nothing, and no control groups.
func TestNotEnforced(t *testing.T) {
	w := newWorld(t)
	v := w.configured("dev", "ram 1GiB\ncpus 0.5\npids 64\n")
	w.status(v,
		"ram 1GiB not enforced: there are no control groups; ",
		"cpus 0.5 not enforced: there are no control groups; ",
		"pids 64 not enforced: the driver cannot\n")
	if err := v.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	w.status(v, "ram 1GiB not enforced: there are no control groups; ")
	if text := w.table.Drivers(w.limit()); !strings.Contains(text, " ram=unlimited (there are no control groups; ") {
		t.Errorf("drivers: %s", text)
	}
}

// TestRequireLimits has no machine made that nothing would hold to its limits.
func TestRequireLimits(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.strict = true
	w.open()
	for _, config := range []string{"ram 1GiB\n", "cpus 2\n", "pids 64\n"} {
		v := w.make(strings.Fields(config)[0])
		if err := v.SetConfig(w.limit(), config); err != nil {
			t.Fatal(err)
		}
		for _, do := range []func(context.Context) error{v.Check, v.Start} {
			if err := do(w.limit()); !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), strings.TrimSpace(config)+" cannot be enforced") {
				t.Errorf("%s: %v", config, err)
			}
		}
		w.is(v, vmm.Created)
	}
}
