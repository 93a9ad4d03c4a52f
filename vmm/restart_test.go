package vmm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

func TestAnonymous(t *testing.T) {
	w := newWorld(t)
	w.make("1") // a named one that looks like a number
	v, err := w.table.MakeAnonymous(w.limit())
	if err != nil || v.Name() != "2" || !v.Anonymous() {
		t.Fatalf("anonymous VM %v, %v", v, err)
	}
	if err := v.Start(w.limit()); err != nil {
		t.Fatal(err)
	}
	if err := v.Stop(w.limit()); err != nil {
		t.Error(err)
	}
	if _, err := w.table.Lookup("2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stopped anonymous VM is still there: %v", err)
	}
	died, _ := w.table.MakeAnonymous(w.limit())
	died.Start(w.limit())
	w.driver.Machine(died.Name()).Die(errors.New("sandbox ended: signal killed"))
	w.await("3 failed sandbox ended: signal killed") // and can be asked why
	w.lookup("3")
	idle, _ := w.table.MakeAnonymous(w.limit())
	busy, _ := w.table.MakeAnonymous(w.limit())
	busy.Start(w.limit())
	w.close()
	if left := w.driver.Machines(); len(left) != 0 {
		t.Errorf("anonymous machines outlive the table: %v (idle is %s)", left, idle.Name())
	}
	w.open()
	if list := w.table.List(); len(list) != 1 || list[0].Name() != "1" {
		t.Errorf("after a restart there are %v", list)
	}
}

func TestRestart(t *testing.T) {
	w := newWorld(t)
	w.make("idle")
	w.running("dev").Set(w.limit(), "cpus", "2")
	gone := w.running("gone")
	gone.Stop(w.limit())
	gone.Set(w.limit(), "cpus", "3")
	gone.Start(w.limit())
	os.WriteFile(filepath.Join(gone.WorkDir(), "f"), []byte("kept"), 0o644)
	bad := filepath.Join(w.lookup("dev").Dir(), "env", "BAD") // keeps nothing that runs from being found again
	if err := os.WriteFile(bad, []byte("x\x00y"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.close()
	m := w.driver.Machine("gone")
	m.Die(nil)
	<-m.Done()
	w.open()
	dev, idle := w.lookup("dev"), w.lookup("idle")
	gone = w.lookup("gone")
	w.is(dev, vmm.Running)
	w.is(idle, vmm.Created)
	w.is(gone, vmm.Stopped)
	if !strings.Contains(gone.Status(), "reason sandbox ended while hutchd was away\n") {
		t.Errorf("status %q", gone.Status())
	}
	if gone.Config().CPUs != 3 {
		t.Errorf("config after a restart %q", gone.ConfigText())
	}
	if data, _ := os.ReadFile(filepath.Join(gone.WorkDir(), "f")); string(data) != "kept" {
		t.Errorf("the workspace has %q", data)
	}
	if g, err := dev.Guest(); err != nil || g.Ready(w.limit()) != nil {
		t.Errorf("the adopted guest does not connect: %v", err)
	}
	if err := dev.Stop(w.limit()); err != nil {
		t.Error(err)
	}
}

// A process that was killed leaves no time to write anything.
func TestRestartAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.running("dev")
	anon, _ := w.table.MakeAnonymous(w.limit())
	anon.Start(w.limit())
	crashed := w.table
	w.driver.Machine("dev").Release()
	w.driver.Machine(anon.Name()).Release()
	w.open()
	w.is(w.lookup("dev"), vmm.Running)
	w.await(anon.Name() + " removed")
	if got := w.driver.Machines(); !slices.Equal(got, []string{"dev"}) {
		t.Errorf("machines after a crash: %v", got)
	}
	w.close()
	w.table = crashed
}

// What a control group counted is told once, also where hutchd is killed after it.
func TestRestartAfterOOM(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	state, group := filepath.Join(v.Dir(), "state"), t.TempDir()
	w.close()
	text, err := os.ReadFile(state)
	must(t, err)
	places := fmt.Sprintf(`{"group":{"memory":{"dir":%q,"v2":true},"pids":{"dir":%[1]q,"v2":true}},`, group)
	must(t, os.WriteFile(state, []byte(places+string(text[1:])), 0o600))
	must(t, os.WriteFile(filepath.Join(group, "memory.events"), []byte("oom_kill 1\n"), 0o600))
	w.open()
	const oom = "dev oom killed: out of memory (the host has no more)"
	w.await(oom)
	for limit := w.limit(); !strings.Contains(string(text), `"told"`); text, err = os.ReadFile(state) {
		if must(t, err); limit.Err() != nil {
			t.Fatal("that it was told is not written down")
		}
	}
	w.close()
	must(t, os.WriteFile(state, text, 0o600)) // as a kill would have left it
	must(t, os.WriteFile(filepath.Join(group, "pids.events"), []byte("max 1\n"), 0o600))
	w.open()
	w.await("dev limit pids: the machine may have no more processes on the host")
	w.hearing.Lock()
	defer w.hearing.Unlock()
	if n := len(slices.DeleteFunc(w.events, func(e string) bool { return e != oom })); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

func TestBrokenStateFiles(t *testing.T) {
	w := newWorld(t)
	for name, text := range map[string]string{"empty": "", "rubbish": "{", "odd": `{"state":"levitating"}`} {
		v := w.make(name)
		os.WriteFile(filepath.Join(v.Dir(), "state"), []byte(text), 0o600)
	}
	bad := w.make("badconfig")
	os.WriteFile(filepath.Join(bad.Dir(), "config"), []byte("nonsense\n"), 0o600)
	edited := w.make("edited")
	edited.SetConfig(w.limit(), "colour red\n")
	os.MkdirAll(filepath.Join(w.dir, "vm", ".gone-1", "x"), 0o700)
	os.MkdirAll(filepath.Join(w.dir, "vm", "not a name"), 0o700)
	w.close()
	w.open()
	for _, name := range []string{"empty", "rubbish", "odd"} {
		v := w.lookup(name)
		w.is(v, vmm.Failed)
		if !strings.Contains(fs.Text(v.Err()), "state file does not parse, kept as state.broken") {
			t.Errorf("%s: error %v", name, v.Err())
		}
		if _, err := os.Stat(filepath.Join(v.Dir(), "state.broken")); err != nil {
			t.Error(err)
		}
	}
	wantErr(t, w.lookup("badconfig").Err(), `invalid argument: config line 1: unknown key "nonsense": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep`)
	wantErr(t, w.lookup("edited").Err(), `invalid argument: config line 1: unknown key "colour": known are image profile driver kernel hostname ram cpus pids disk records idle ttl net mount snap undo undo_keep`)
	if got := len(w.table.List()); got != 5 {
		t.Errorf("%d VMs, want 5", got)
	}
}

func BenchmarkOpen100(b *testing.B) {
	dir := b.TempDir()
	o := vmm.Options{Dir: dir, Drivers: []vmm.Driver{&vmmtest.Driver{}}}
	table, err := vmm.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		v, _ := table.Make(context.Background(), fmt.Sprint("vm", i))
		v.Set(context.Background(), "cpus", "2")
	}
	table.Close(context.Background())
	for b.Loop() {
		table, err := vmm.Open(o)
		if err != nil || len(table.List()) != 100 {
			b.Fatal(err)
		}
		b.StopTimer()
		table.Close(context.Background())
		b.StartTimer()
	}
}

func BenchmarkStatus(b *testing.B) {
	table, err := vmm.Open(vmm.Options{Dir: b.TempDir(), Drivers: []vmm.Driver{&vmmtest.Driver{}}})
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close(context.Background())
	v, _ := table.MakeAnonymous(context.Background())
	if err := v.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v.Status()
	}
}

// BenchmarkOpenAfterReboot opens a table whose 100 machines are all gone.
func BenchmarkOpenAfterReboot(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		o := vmm.Options{Dir: dir, Drivers: []vmm.Driver{&vmmtest.Driver{}}}
		for i := range 100 {
			vm := filepath.Join(dir, "vm", fmt.Sprint("vm", i))
			if err := errors.Join(os.MkdirAll(vm, 0o755),
				os.WriteFile(filepath.Join(vm, "state"), []byte(`{"state":"running","machine":"x"}`), 0o600)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		table, err := vmm.Open(o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		table.Close(context.Background())
		b.StartTimer()
	}
}
