package vmm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// remembers says whether the VM's guest has an exec that was made before.
func (w *world) remembers(v *vmm.VM, want bool) {
	w.Helper()
	g, err := v.Guest()
	if err != nil {
		w.Fatal(err)
	}
	if _, err := g.Exec(w.limit(), "mark"); (err == nil) != want {
		w.Errorf("vm %s remembers %v, want %v (%v)", v.Name(), err == nil, want, err)
	}
}

// marked returns a running VM whose guest has something to remember.
func (w *world) marked(name string) *vmm.VM {
	w.Helper()
	v := w.running(name)
	g, _ := v.Guest()
	if _, err := g.MakeExec(w.limit(), "mark"); err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// lose kills the machine of the VM called name when its table is no more there to see it.
func (w *world) lose(name string) {
	w.Helper()
	m := w.driver.Machine(name)
	m.Release()
	w.must(m.Kill(w.limit()))
}

// crash gives the state folder to a new table, as if this one's process had
// been killed. The old one is closed at the end of the test.
func (w *world) crash() {
	w.Helper()
	for _, name := range w.driver.Machines() {
		w.driver.Machine(name).Release()
	}
	old := w.table
	w.Cleanup(func() { old.Close(w.limit()) })
	w.open()
}

func TestSuspend(t *testing.T) {
	w := newWorld(t)
	v := w.marked("dev")
	for range 2 {
		w.must(v.Suspend(w.limit()))
		w.is(v, vmm.Suspended)
		if got := w.driver.Machines(); len(got) != 0 {
			t.Errorf("machines of a suspended VM: %v", got)
		}
		w.close()
		w.open()
		v = w.lookup("dev")
		w.is(v, vmm.Suspended)
		w.must(v.Resume(w.limit()))
		w.is(v, vmm.Running)
		w.remembers(v, true)
		if left, _ := filepath.Glob(filepath.Join(v.Dir(), "*sav*")); len(left) != 0 {
			t.Errorf("left of what was saved: %v", left)
		}
	}
	w.must(v.Suspend(w.limit()))
	w.must(v.Stop(w.limit()))
	w.is(v, vmm.Stopped)
	w.must(v.Start(w.limit()))
	w.remembers(v, false)
}

// The image and the config of a suspended VM stay what they are.
func TestSuspendedHasItsConfig(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.must(v.Suspend(w.limit()))
	want := `file in use: vm "dev" is suspended: resume it, or stop it and lose its memory`
	wantErr(t, v.SetConfig(w.limit(), "cpus 2\n"), want)
	wantErr(t, v.Start(w.limit()), want)
	wantErr(t, v.Revert(w.limit(), "x"), `file does not exist: snapshot "x"`)
	wantErr(t, w.table.Remove(w.limit(), "dev"), want)
	_, err := v.Guest()
	wantErr(t, err, want)
	w.must(v.Snap(w.limit(), "s"))
	w.is(v, vmm.Suspended)
	wantErr(t, v.Revert(w.limit(), "s"), want)
}

func TestSuspendFails(t *testing.T) {
	w := newWorld(t)
	v := w.marked("dev")
	boom := errors.New("boom")
	fail := vmmtest.Step("")
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == fail {
			return boom
		}
		return nil
	}
	for _, fail = range []vmmtest.Step{vmmtest.Pause, vmmtest.Save} {
		wantErr(t, v.Suspend(w.limit()), `i/o error: vm "dev" is not suspended: boom`)
		w.is(v, vmm.Running)
		w.remembers(v, true)
	}
	fail = vmmtest.Restore
	w.must(v.Suspend(w.limit()))
	wantErr(t, v.Resume(w.limit()), `i/o error: vm "dev" stays suspended: boom`)
	w.is(v, vmm.Suspended)
	fail = ""
	w.must(v.Resume(w.limit()))
	w.remembers(v, true)
	if left, _ := filepath.Glob(filepath.Join(v.Dir(), ".new-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestKillWhileResuming(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.must(v.Suspend(w.limit()))
	there, _ := w.held(vmmtest.Restore)
	resumed := make(chan error)
	go func() { resumed <- v.Resume(w.limit()) }()
	<-there
	if err := v.Kill(w.limit()); err != nil {
		t.Error(err)
	}
	wantErr(t, <-resumed, `interrupted: vm "dev" was killed while it was resumed`)
	w.is(v, vmm.Stopped)
}

// TestCrashes has a table find what one that was killed left half done.
func TestCrashes(t *testing.T) {
	save := func(w *world, v *vmm.VM, name string) {
		m := w.driver.Machine(v.Name())
		dir := filepath.Join(v.Dir(), name, "machine")
		w.must(os.MkdirAll(dir, 0o700))
		w.must(os.WriteFile(filepath.Join(v.Dir(), name, "config"), []byte(v.Config().Text()), 0o600))
		w.must(m.Pause(w.limit()))
		w.must(m.Save(w.limit(), dir))
	}
	for _, c := range []struct {
		name  string
		leave func(w *world, v *vmm.VM)
		want  vmm.State
		knows bool // after a resume or start
	}{
		{"paused", func(w *world, v *vmm.VM) { w.must(w.driver.Machine("dev").Pause(w.limit())) }, vmm.Running, true},
		{"half saved", func(w *world, v *vmm.VM) { save(w, v, ".new-1") }, vmm.Running, true},
		{"saved, machine there", func(w *world, v *vmm.VM) { save(w, v, "saved") }, vmm.Suspended, true},
		{"saved, machine gone", func(w *world, v *vmm.VM) {
			save(w, v, "saved")
			w.lose("dev")
		}, vmm.Suspended, true},
		{"restoring, no machine", func(w *world, v *vmm.VM) {
			save(w, v, "restoring")
			w.lose("dev")
		}, vmm.Suspended, true},
		{"restoring, machine there", func(w *world, v *vmm.VM) {
			w.must(os.MkdirAll(filepath.Join(v.Dir(), "restoring"), 0o700))
		}, vmm.Running, true},
		{"suspended, nothing saved", func(w *world, v *vmm.VM) {
			w.must(v.Suspend(w.limit()))
			w.must(os.RemoveAll(filepath.Join(v.Dir(), "saved")))
		}, vmm.Stopped, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.leave(w, w.marked("dev"))
			w.crash()
			v := w.lookup("dev")
			w.is(v, c.want)
			if got := len(w.driver.Machines()); (got == 1) != (c.want == vmm.Running) {
				t.Errorf("%d machines", got)
			}
			switch c.want {
			case vmm.Suspended:
				w.must(v.Resume(w.limit()))
			case vmm.Stopped:
				w.must(v.Start(w.limit()))
			}
			w.remembers(v, c.knows)
			w.must(v.Stop(w.limit()))
		})
	}
}

func TestPersist(t *testing.T) {
	w := newWorld(t)
	v, err := w.table.MakeAnonymous(w.limit())
	w.must(err)
	w.must(v.Start(w.limit()))
	dir := v.Dir()
	w.make("taken")
	wantErr(t, v.Persist(w.limit(), "taken"), `file already exists: vm "taken"`)
	w.must(v.Persist(w.limit(), "dev"))
	wantErr(t, v.Persist(w.limit(), "more"), `invalid argument: vm "dev" persists already`)
	if _, err := w.table.Lookup("1"); err == nil {
		t.Error("it still has its number")
	}
	w.must(v.Discard(w.limit())) // does nothing to a VM that persists
	w.crash()
	v = w.lookup("dev")
	w.is(v, vmm.Running)
	if v.Anonymous() || v.Dir() != dir {
		t.Errorf("anonymous %v in %s", v.Anonymous(), v.Dir())
	}
	w.make("1") // the name is free, the folder is not
	w.must(v.Stop(w.limit()))
	w.must(w.table.Remove(w.limit(), "dev"))
	w.lookup("1")
}

func TestForkFails(t *testing.T) {
	w := newWorld(t)
	v := w.marked("dev")
	fail := vmmtest.Step("")
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, vm string) error {
		if s == fail {
			return errors.New("boom")
		}
		return nil
	}
	for _, fail = range []vmmtest.Step{vmmtest.Pause, vmmtest.Save, vmmtest.Restore} {
		err := v.ForkLive(w.limit(), "copy")
		if err == nil || !strings.HasSuffix(err.Error(), "boom") {
			t.Errorf("%s fails: %v", fail, err)
		}
		w.is(v, vmm.Running)
		w.remembers(v, true)
		if list := w.table.List(); len(list) != 1 {
			t.Errorf("%s fails: VMs %v", fail, list)
		}
	}
	fail = ""
	left, _ := os.ReadDir(filepath.Join(w.dir, "vm"))
	if len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	w.must(v.ForkLive(w.limit(), "copy"))
	w.is(w.lookup("copy"), vmm.Running)
}

// TestForkCrashes leaves a live fork that did not come to run.
func TestForkCrashes(t *testing.T) {
	w := newWorld(t)
	v := w.make("copy")
	w.must(os.MkdirAll(filepath.Join(v.Dir(), "restoring", "machine"), 0o700))
	w.must(os.WriteFile(filepath.Join(v.Dir(), "state"), []byte(`{"name":"copy","state":"starting","unfinished":true}`), 0o600))
	w.crash()
	if list := w.table.List(); len(list) != 0 {
		t.Errorf("VMs %v", list)
	}
	w.close()
	if left, _ := os.ReadDir(filepath.Join(w.dir, "vm")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	w.open()
}
