package vmm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/fs/need"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

func (w *world) put(v *vmm.VM, path, text string) {
	w.Helper()
	path = filepath.Join(v.Dir(), path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.Fatal(err)
	}
}

// has checks what is in a file of the VM; "" is none.
func (w *world) has(v *vmm.VM, path, want string) {
	w.Helper()
	if got, _ := os.ReadFile(filepath.Join(v.Dir(), path)); string(got) != want {
		w.Errorf("%s of vm %s is %q, want %q", path, v.Name(), got, want)
	}
}

func (w *world) snap(v *vmm.VM, name string) {
	w.Helper()
	if err := v.Snap(w.limit(), name); err != nil {
		w.Fatal(err)
	}
}

// left checks which names are in the VM's folder of snapshots, and that
// nothing else was left in the VM's own.
func (w *world) left(v *vmm.VM, want string) {
	w.Helper()
	var names []string
	for _, dir := range []string{v.Dir(), filepath.Join(v.Dir(), "snap")} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name()[0] == '.' || dir != v.Dir() || e.Name() == "reverting" {
				names = append(names, e.Name())
			}
		}
	}
	if got := strings.Join(names, " "); got != want {
		w.Errorf("in the folder of snapshots is %q, want %q", got, want)
	}
}

func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.put(v, "work/f", "one")
	w.put(v, "layer/up/etc/x", "layer")
	w.snap(v, "stopped")
	if err := v.Start(w.limit()); err != nil {
		t.Fatal(err)
	}
	w.put(v, "work/f", "two")
	began := time.Now()
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Pause {
			time.Sleep(time.Since(began)) // longer than all was copied ahead
		}
		return nil
	}
	w.snap(v, "running")
	w.await("dev snapshot running")
	w.is(v, vmm.Running)
	w.has(v, "snap/stopped/work/f", "one")
	w.has(v, "snap/running/work/f", "two")
	w.has(v, "snap/running/layer/up/etc/x", "layer")
	for name, state := range map[string]string{"stopped": "created", "running": "running"} {
		i, err := v.Snapshots().Get(name)
		if err != nil || i.State != state || i.Cost.Files != 2 || i.Taken.IsZero() || (i.Frozen > 0) != (name == "running") || i.Cost.Time < i.Frozen {
			t.Errorf("snapshot is %+v, %v", i, err)
		}
	}
	wantErr(t, v.Snap(w.limit(), "running"), `file already exists: snapshot "running"`)
	wantErr(t, v.Snap(w.limit(), "now"), `invalid argument: "now" is not the name of a snapshot: it means something else`)
	wantErr(t, v.Snap(w.limit(), "a b"), `invalid argument: snapshot name "a b" has other characters than letters, digits, '.', '_' and '-'`)
	wantErr(t, v.Snap(w.limit(), ".new-x"), `invalid argument: snapshot name ".new-x" starts with a dot`)
	wantErr(t, v.DropSnapshot(w.limit(), "none"), `file does not exist: snapshot "none"`)
	wantErr(t, v.DropSnapshot(w.limit(), ".."), `file does not exist: snapshot ".."`)
	if err := v.DropSnapshot(w.limit(), "stopped"); err != nil {
		t.Error(err)
	}
	w.await("dev dropped stopped")
	w.left(v, "running")
	if err := v.Stop(w.limit()); err != nil {
		t.Error(err)
	}
	if err := w.table.Remove(w.limit(), "dev"); err != nil {
		t.Error(err)
	}
	wantErr(t, v.Snap(w.limit(), "late"), `file does not exist: no vm "dev"`)
}

// The guest stands still while it is copied, and goes on whatever happens.
func TestSnapshotFreezes(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	var steps []vmmtest.Step
	fail := errors.New("no")
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		steps = append(steps, s)
		if s == vmmtest.Pause {
			return fail
		}
		return nil
	}
	if err := v.Snap(w.limit(), "a"); !errors.Is(err, fail) || !slices.Equal(steps, []vmmtest.Step{vmmtest.Pause, vmmtest.Resume}) {
		t.Errorf("error %v, steps %q", err, steps)
	}
	w.left(v, "")
	fail, steps = nil, nil
	w.snap(v, "a")
	if !slices.Equal(steps, []vmmtest.Step{vmmtest.Pause, vmmtest.Resume}) {
		t.Errorf("steps %q", steps)
	}
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Resume {
			return errors.New("stuck")
		}
		return nil
	}
	wantErr(t, v.Snap(w.limit(), "b"), `i/o error: no snapshot "b": vm "dev" is frozen: stuck`)
	w.left(v, "a")
	w.driver.Hold = nil
}

// An interrupted snapshot leaves nothing, at whatever point.
func TestSnapshotInterrupted(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.put(v, "work/f", "x")
	ctx, cancel := context.WithCancel(w.limit())
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Pause {
			cancel() // the guest is frozen when its snapshot is given up
		}
		return nil
	}
	if err := v.Snap(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if err := v.Snap(ctx, "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	w.left(v, "")
	w.is(v, vmm.Running)
	w.driver.Hold = nil
	w.snap(v, "a")
}

// What a killed process left is removed, and what it had frozen goes on.
func TestSnapshotKilled(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.snap(v, "kept")
	w.put(v, "snap/.new-1/work/f", "half")
	w.put(v, "snap/.gone-1/x/work/f", "half")
	w.put(v, ".new-1/work/f", "half")
	w.driver.Machine("dev").Pause(w.limit())
	w.close()
	resumed := make(chan struct{}, 1)
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Resume {
			resumed <- struct{}{}
		}
		return nil
	}
	w.open()
	w.driver.Hold = nil
	select {
	case <-resumed:
	default:
		t.Error("the adopted machine was not resumed")
	}
	w.close() // waits for what is done in the background
	w.open()
	v = w.lookup("dev")
	w.is(v, vmm.Running)
	w.left(v, "kept")
}

func TestRevert(t *testing.T) {
	for _, state := range []string{"created", "running"} {
		t.Run(state, func(t *testing.T) {
			w := newWorld(t)
			reverted := 0
			w.close()
			w.hooks.Reverted = func(*vmm.VM) { reverted++ }
			w.open()
			v := w.make("dev")
			w.put(v, "work/f", "one")
			w.put(v, "layer/up/x", "one")
			w.snap(v, "s")
			if state == "running" {
				if err := v.Start(w.limit()); err != nil {
					t.Fatal(err)
				}
			}
			w.put(v, "work/f", "two")
			w.put(v, "work/g", "two")
			w.put(v, "layer/up/x", "two")
			for range 2 {
				if err := v.Revert(w.limit(), "s"); err != nil {
					t.Fatal(err)
				}
				w.has(v, "work/f", "one")
				w.has(v, "work/g", "")
				w.has(v, "layer/up/x", "one")
				w.put(v, "work/g", "three")
			}
			w.await("dev reverted s")
			w.is(v, vmm.State(state))
			w.left(v, "s")
			if reverted != 2 {
				t.Errorf("%d calls of the hook", reverted)
			}
			w.has(v, "snap/s/work/g", "")
			wantErr(t, v.Revert(w.limit(), "none"), `file does not exist: snapshot "none"`)
			if state == "running" {
				return
			}
			v.Set(w.limit(), "image", "other")
			wantErr(t, v.Revert(w.limit(), "s"), `invalid argument: the snapshot is of image "host" and vm "dev" has "other": set image host first`)
		})
	}
}

// A revert that was cut short after it was decided is finished by the next
// process, wherever that was.
func TestRevertKilled(t *testing.T) {
	steps := []func(dir string) error{
		func(string) error { return nil },
		func(dir string) error { return os.Rename(dir+"/work", dir+"/reverting/old-work") },
		func(dir string) error { return os.Rename(dir+"/reverting/work", dir+"/work") },
		func(dir string) error { return os.Rename(dir+"/layer", dir+"/reverting/old-layer") },
		func(dir string) error { return os.Rename(dir+"/reverting/layer", dir+"/layer") },
	}
	for n := range steps {
		w := newWorld(t)
		v := w.make("dev")
		w.put(v, "work/f", "old")
		w.put(v, "layer/f", "old")
		w.put(v, "reverting/work/f", "new")
		w.put(v, "reverting/layer/f", "new")
		for _, step := range steps[:n+1] {
			if err := step(v.Dir()); err != nil {
				t.Fatal(err)
			}
		}
		w.close()
		w.open()
		v = w.lookup("dev")
		w.has(v, "work/f", "new")
		w.has(v, "layer/f", "new")
		w.left(v, "")
	}
}

// A revert that fails between its renames leaves a VM that says so, does not start
// by halves, and is whole when it is started or reverted again.
func TestRevertStuck(t *testing.T) {
	for _, mend := range []func(w *world, v *vmm.VM) error{
		func(w *world, v *vmm.VM) error { return v.Start(w.limit()) },
		func(w *world, v *vmm.VM) error { return v.Revert(w.limit(), "s") },
	} {
		w := newWorld(t)
		v := w.running("dev")
		w.put(v, "work/f", "old")
		w.put(v, "layer/f", "old")
		w.snap(v, "s")
		w.put(v, "work/f", "new")
		w.put(v, "layer/f", "new")
		w.driver.Hold = func(_ context.Context, step vmmtest.Step, _ string) error {
			if step == vmmtest.Kill {
				made, _ := filepath.Glob(filepath.Join(v.Dir(), ".new-*"))
				return os.MkdirAll(filepath.Join(made[0], "old-work", "f"), 0o700)
			}
			return nil
		}
		err := v.Revert(w.limit(), "s")
		w.driver.Hold = nil
		const says = "is not reverted whole, start it or revert it to finish that"
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(v.Status(), "stopped\nreason i/o error: vm \"dev\" "+says) {
			t.Errorf("%v, %s", err, v.Status())
		}
		if err := mend(w, v); err == nil {
			t.Error("it is mended with what is in its way")
		}
		must(t, errors.Join(os.RemoveAll(filepath.Join(v.Dir(), "reverting", "old-work")), os.Rename(v.WorkDir(), filepath.Join(v.Dir(), "reverting", "old-work"))))
		if err := mend(w, v); err == nil { // with the disk as when the second rename failed
			w.has(v, "work/f", "old")
			w.has(v, "layer/f", "old")
		} else {
			t.Error(err)
		}
		w.left(v, "s")
	}
}

func TestDiff(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.put(v, "work/f", "one")
	w.put(v, "layer/up/etc/x", "1")
	w.snap(v, "a")
	w.put(v, "work/f", "two")
	w.put(v, "layer/up/etc/y", "2")
	w.snap(v, "b")
	w.put(v, "work/new", "")
	for _, c := range []struct{ a, b, want string }{
		{"a", "b", "added layer/etc/y\nchanged work/f\n"},
		{"b", "a", "removed layer/etc/y\nchanged work/f\n"},
		{"b", "now", "added work/new\n"},
		{"now", "now", ""},
		{".", "a", "added layer/etc/\nadded layer/etc/x\nadded work/f\n"},
		{"a", ".", "removed layer/etc/\nremoved layer/etc/x\nremoved work/f\n"},
	} {
		got, err := v.Diff(w.limit(), c.a, c.b)
		if err != nil || got != c.want {
			t.Errorf("difference from %s to %s is %q, %v", c.a, c.b, got, err)
		}
	}
	_, err := v.Diff(w.limit(), "a", "none")
	wantErr(t, err, `file does not exist: snapshot "none"`)
}

// The ring drops its own snapshots only, and goes on after a restart.
func TestRing(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.snap(v, "auto-mine")
	if err := v.SetConfig(w.limit(), "snap keep=2 every=1s\n"); err != nil {
		t.Fatal(err)
	}
	if err := v.Start(w.limit()); err != nil {
		t.Fatal(err)
	}
	w.count("dev dropped auto-", 1)
	w.close()
	w.open()
	w.count("dev dropped auto-", 2)
	v = w.lookup("dev")
	if err := v.Stop(w.limit()); err != nil {
		t.Fatal(err)
	}
	w.close() // waits for a snapshot that is being taken, or dropped
	list, err := v.Snapshots().List()
	automatic := 0
	for _, i := range list {
		if i.Automatic {
			automatic++
		}
	}
	if err != nil || len(list) > 4 || automatic < 2 || list[0].Name != "auto-mine" {
		t.Errorf("snapshots are %+v, %v", list, err)
	}
}

// count waits until n events have begun with prefix.
func (w *world) count(prefix string, n int) {
	w.Helper()
	limit := w.limit()
	for {
		w.hearing.Lock()
		there, heard := 0, w.heard
		for _, e := range w.events {
			if strings.HasPrefix(e, prefix) {
				there++
			}
		}
		w.hearing.Unlock()
		if there >= n {
			return
		}
		select {
		case <-heard:
		case <-limit.Done():
			w.Fatalf("not %d events %q in %q", n, prefix, w.events)
		}
	}
}

// A snapshot and a revert that find the disk full leave nothing, and the VM
// as it was.
func TestSnapshotFull(t *testing.T) {
	need.Root(t)
	w := newWorld(t)
	w.close()
	w.dir = t.TempDir()
	if err := unix.Mount("none", w.dir, "tmpfs", 0, "size=24m"); err != nil {
		need.Missing(t, "no tmpfs: "+err.Error())
	}
	t.Cleanup(func() {
		w.close()
		if err := unix.Unmount(w.dir, 0); err != nil {
			t.Error(err)
		}
		w.dir = t.TempDir()
		w.open()
	})
	w.open()
	v := w.running("dev")
	w.put(v, "work/f", "small")
	w.snap(v, "s")
	w.put(v, "work/f", strings.Repeat("x", 14<<20))
	if err := v.Snap(w.limit(), "big"); fs.Errno(err) != unix.ENOSPC {
		t.Errorf("error is %v", err)
	}
	w.left(v, "s")
	w.is(v, vmm.Running)
	if err := os.Remove(filepath.Join(v.Dir(), "work/f")); err != nil {
		t.Fatal(err)
	}
	w.put(v, "snap/s/work/f", strings.Repeat("y", 14<<20))
	if err := v.Revert(w.limit(), "s"); fs.Errno(err) != unix.ENOSPC {
		t.Errorf("error is %v", err)
	}
	w.left(v, "s")
	w.has(v, "work/f", "")
	w.is(v, vmm.Running)
}

// TestKillOfStuck kills a VM whose machine does not obey, as that of a guest
// that has used up all its descriptors: neither the snapshot nor the machine
// is waited for.
func TestKillOfStuck(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	stuck := make(chan struct{})
	w.driver.Hold = func(ctx context.Context, s vmmtest.Step, vm string) error {
		if s == vmmtest.Pause {
			close(stuck)
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	}
	snapped := make(chan error, 1)
	go func() { snapped <- v.Snap(w.limit(), "a") }()
	<-stuck
	if err := v.Kill(w.limit()); err != nil {
		t.Error(err)
	}
	wantErr(t, <-snapped, `interrupted: no snapshot "a": killed`)
}
