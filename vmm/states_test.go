package vmm_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hutch/fs"
	"hutch/vmm"
)

// TestReasonIsTheLast has a VM fail for one reason, and then not even begin to
// start for another.
func TestReasonIsTheLast(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.driver.Machine("dev").Die(errors.New("out of memory"))
	w.await("dev failed out of memory")
	if err := v.Set(w.limit(), "image", "none"); err != nil {
		t.Fatal(err)
	}
	if v.Start(w.limit()) == nil {
		t.Fatal("an image that is not there started")
	}
	for range 2 { // and after a restart
		if text := v.Status(); !strings.HasPrefix(text, "failed\nreason file does not exist: image \"none\"\n") {
			t.Errorf("status %q", text)
		}
		w.close()
		w.open()
		v = w.lookup("dev")
	}
}

// Every verb in every state that a VM can rest in.
func TestVerbsAndStates(t *testing.T) {
	const (
		ok         = ""
		running    = `file in use: vm "dev" is running already`
		notRunning = `file in use: vm "dev" is not running: start it first`
		hasFailed  = `file in use: vm "dev" is not running: it failed: sandbox ended: signal killed: start it first`
		over       = `file in use: vm "dev" is not running`
		failedOver = `file in use: vm "dev" is not running: it failed: sandbox ended: signal killed`
		stopFirst  = `file in use: vm "dev" is running: stop it first`
	)
	states := map[vmm.State]func(w *world) *vmm.VM{
		vmm.Created: func(w *world) *vmm.VM { return w.make("dev") },
		vmm.Running: func(w *world) *vmm.VM { return w.running("dev") },
		vmm.Stopped: func(w *world) *vmm.VM {
			v := w.running("dev")
			v.Stop(w.limit())
			return v
		},
		vmm.Failed: func(w *world) *vmm.VM {
			v := w.running("dev")
			w.driver.Machine("dev").Die(errors.New("sandbox ended: signal killed"))
			w.await("dev failed sandbox ended: signal killed")
			return v
		},
	}
	type outcome struct {
		err  string
		then vmm.State // "": gone
	}
	verbs := []struct {
		name string
		do   func(w *world, v *vmm.VM) error
		want map[vmm.State]outcome
	}{
		{"start", func(w *world, v *vmm.VM) error { return v.Start(w.limit()) }, map[vmm.State]outcome{
			vmm.Created: {ok, vmm.Running}, vmm.Running: {running, vmm.Running}, vmm.Stopped: {ok, vmm.Running}, vmm.Failed: {ok, vmm.Running}}},
		{"stop", func(w *world, v *vmm.VM) error { return v.Stop(w.limit()) }, map[vmm.State]outcome{
			vmm.Created: {over, vmm.Created}, vmm.Running: {ok, vmm.Stopped}, vmm.Stopped: {over, vmm.Stopped}, vmm.Failed: {failedOver, vmm.Failed}}},
		{"kill", func(w *world, v *vmm.VM) error { return v.Kill(w.limit()) }, map[vmm.State]outcome{
			vmm.Created: {over, vmm.Created}, vmm.Running: {ok, vmm.Stopped}, vmm.Stopped: {over, vmm.Stopped}, vmm.Failed: {failedOver, vmm.Failed}}},
		{"set", func(w *world, v *vmm.VM) error { return v.Set(w.limit(), "cpus", "2") }, map[vmm.State]outcome{
			vmm.Created: {ok, vmm.Created}, vmm.Running: {stopFirst, vmm.Running}, vmm.Stopped: {ok, vmm.Stopped}, vmm.Failed: {ok, vmm.Failed}}},
		{"check", func(w *world, v *vmm.VM) error { return v.Check(w.limit()) }, map[vmm.State]outcome{
			vmm.Created: {ok, vmm.Created}, vmm.Running: {stopFirst, vmm.Running}, vmm.Stopped: {ok, vmm.Stopped}, vmm.Failed: {ok, vmm.Failed}}},
		{"remove", func(w *world, v *vmm.VM) error { return w.table.Remove(w.limit(), "dev") }, map[vmm.State]outcome{
			vmm.Created: {ok, ""}, vmm.Running: {stopFirst, vmm.Running}, vmm.Stopped: {ok, ""}, vmm.Failed: {ok, ""}}},
		{"make", func(w *world, v *vmm.VM) error { _, err := w.table.Make(w.limit(), "dev"); return err }, map[vmm.State]outcome{
			vmm.Created: {`file already exists: vm "dev"`, vmm.Created}, vmm.Running: {`file already exists: vm "dev"`, vmm.Running},
			vmm.Stopped: {`file already exists: vm "dev"`, vmm.Stopped}, vmm.Failed: {`file already exists: vm "dev"`, vmm.Failed}}},
	}
	for state, reach := range states {
		for _, verb := range verbs {
			t.Run(string(state)+"/"+verb.name, func(t *testing.T) {
				w := newWorld(t)
				v := reach(w)
				want := verb.want[state]
				wantErr(t, verb.do(w, v), want.err)
				if want.then == "" {
					_, err := w.table.Lookup("dev")
					wantErr(t, err, `file does not exist: no vm "dev"`)
					wantErr(t, v.Start(w.limit()), `file does not exist: no vm "dev"`)
					if left, _ := os.ReadDir(filepath.Join(w.dir, "vm")); len(left) != 0 {
						t.Errorf("left on disk: %v", left)
					}
					return
				}
				w.is(v, want.then)
				if want.err != "" && verb.name != "remove" && verb.name != "make" {
					wantErr(t, v.Err(), want.err)
				}
			})
		}
	}
}

func TestLifeIsTold(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	if _, err := v.Guest(); err != nil {
		t.Error(err)
	}
	w.is(v, vmm.Running)
	if s := v.Status(); !strings.Contains(s, "\nimage host\n") || !strings.Contains(s, "\ndriver fake\n") || !strings.Contains(s, "\npid ") {
		t.Errorf("status %q", s)
	}
	if err := v.Stop(w.limit()); err != nil {
		t.Error(err)
	}
	if _, err := v.Guest(); fs.Text(err) != `file in use: vm "dev" is not running: start it first` {
		t.Error(err)
	}
	if err := w.table.Remove(w.limit(), "dev"); err != nil {
		t.Error(err)
	}
	want := []string{"dev made", "dev starting", "dev running", "dev stopping", "dev stopped", "dev removed"}
	if !slices.Equal(w.events, want) {
		t.Errorf("events %q, want %q", w.events, want)
	}
}

func TestGuestEndsItself(t *testing.T) {
	w := newWorld(t)
	v := w.running("dev")
	w.driver.Machine("dev").Die(nil)
	w.await("dev stopped guest shut down")
	w.is(v, vmm.Stopped)
	w.running("other").Kill(w.limit())
	g := w.running("third")
	w.driver.Machine("third").Die(errors.New("sandbox ended: signal killed"))
	w.await("third failed sandbox ended: signal killed")
	wantErr(t, g.Err(), `i/o error: vm "third": sandbox ended: signal killed`)
}

func TestSidecar(t *testing.T) {
	w := newWorld(t)
	w.close()
	var calls []string
	var noting sync.Mutex
	note := func(what string) {
		noting.Lock()
		defer noting.Unlock()
		calls = append(calls, what)
	}
	fail := errors.New("no aggregator")
	w.hooks = hooks{
		Start: func(v *vmm.VM) error {
			note("start " + v.Name())
			if v.Name() == "bad" {
				return fail
			}
			return nil
		},
		Stop:  func(v *vmm.VM) { note("stop " + v.Name()) },
		Close: func(v *vmm.VM) { note("close " + v.Name()) },
	}
	w.open()
	w.running("dev")
	if err := w.make("bad").Start(w.limit()); !errors.Is(err, fail) {
		t.Error(err)
	}
	w.close() // lets dev run on
	w.open()
	w.lookup("dev").Stop(w.limit())
	w.table.Remove(w.limit(), "dev")
	want := []string{"start dev", "start bad", "stop bad", "stop dev", "close bad", "close dev", "start dev", "stop dev", "close dev"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}
