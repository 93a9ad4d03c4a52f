package vmm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

func TestStartFailsAndStartsAgain(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	boom := fmt.Errorf("%w: user namespaces are forbidden here", fs.ErrUnsupported)
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Start {
			return boom
		}
		return nil
	}
	wantErr(t, v.Start(w.limit()), "not supported: user namespaces are forbidden here")
	w.is(v, vmm.Failed)
	wantErr(t, v.Err(), "not supported: user namespaces are forbidden here")
	if !strings.Contains(v.Status(), "reason not supported: user namespaces") {
		t.Errorf("status %q", v.Status())
	}
	w.driver.Hold = nil
	if err := v.Start(w.limit()); err != nil {
		t.Error(err)
	}
	w.is(v, vmm.Running)
}

func TestMissingImage(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	if err := v.Set(w.limit(), "image", "foo"); err != nil {
		t.Fatal(err)
	}
	for _, do := range []func(context.Context) error{v.Check, v.Start} {
		wantErr(t, do(w.limit()), `file does not exist: image "foo"`)
		w.is(v, vmm.Created)
	}
}

// TestCheckAsksTheDriver has a driver that cannot run say why before a start.
func TestCheckAsksTheDriver(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Probe {
			return fmt.Errorf("%w: no kernel in /boot", fs.ErrNotExist)
		}
		return nil
	}
	wantErr(t, v.Check(w.limit()), "file does not exist: driver fake: no kernel in /boot")
	w.is(v, vmm.Created)
	if err := v.Set(w.limit(), "kernel", "/boot/vmlinuz-1"); err != nil {
		t.Fatal(err)
	}
	if err := v.Check(w.limit()); err != nil {
		t.Errorf("with a kernel of its own: %v", err)
	}
	w.driver.Hold = nil
	if err := v.Start(w.limit()); err != nil {
		t.Error(err)
	}
}

// TestMountRefused has a driver that cannot mount say so before anything runs.
func TestMountRefused(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	if err := v.Set(w.limit(), "mount", t.TempDir()+":/x"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, v.Start(w.limit()), "not supported: the driver "+w.driver.Name()+" cannot mount folders of the host: copy what the guest needs to its workspace")
	w.is(v, vmm.Created)
}

func TestGuestThatDoesNotConnect(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.driver.Guest = func(ctx context.Context, _ vmmtest.Guest) { <-ctx.Done() }
	w.starts = 50 * time.Millisecond
	w.open()
	v := w.make("dev")
	wantErr(t, v.Start(w.limit()), "timed out: the guest did not connect in 50ms; see log/serial")
	w.is(v, vmm.Failed)
	if left := w.driver.Machines(); len(left) != 0 {
		t.Errorf("machines are left: %v", left)
	}
}

func TestGuestThatDiesBeforeItConnects(t *testing.T) {
	w := newWorld(t)
	w.driver.Guest = func(context.Context, vmmtest.Guest) {}
	v := w.make("dev")
	wantErr(t, v.Start(w.limit()), "i/o error: guest shut down before the agent connected")
	w.is(v, vmm.Failed)
}

// held makes the driver wait at a step, and returns what tells that it is
// there and what lets it go on.
func (w *world) held(step vmmtest.Step) (there chan struct{}, goOn func()) {
	there, gate := make(chan struct{}), make(chan struct{})
	var once, open sync.Once
	w.driver.Hold = func(ctx context.Context, s vmmtest.Step, _ string) error {
		if s != step {
			return nil
		}
		once.Do(func() { close(there) })
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return there, func() { open.Do(func() { close(gate) }) }
}

func TestInterruptStopsTheWaitingOnly(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	there, goOn := w.held(vmmtest.Start)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- v.Start(ctx) }()
	<-there
	w.is(v, vmm.Starting)
	cancel()
	if err := <-done; !fs.Is(err, fs.ErrInterrupted) {
		t.Errorf("interrupted start: %v", err)
	}
	goOn()
	w.await("dev running")
	w.is(v, vmm.Running)
}

func TestKillCutsAStartShort(t *testing.T) {
	w := newWorld(t)
	v := w.make("dev")
	there, _ := w.held(vmmtest.Start)
	done := make(chan error)
	go func() { done <- v.Start(w.limit()) }()
	<-there
	if err := v.Kill(w.limit()); err != nil {
		t.Errorf("kill: %v", err)
	}
	wantErr(t, <-done, `interrupted: vm "dev" was killed while it started`)
	w.is(v, vmm.Failed)
}

func TestKillCutsAStopShort(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.grace = time.Hour
	deaf := make(chan struct{})
	w.driver.Guest = func(ctx context.Context, g vmmtest.Guest) {
		guest, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-ctx.Done()
			cancel()
		}()
		vmmtest.Agent(guest, g)
		<-ctx.Done()
		close(deaf)
	}
	w.open()
	v := w.running("dev")
	done := make(chan error)
	go func() { done <- v.Stop(w.limit()) }()
	w.await("dev stopping")
	if err := v.Kill(w.limit()); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("stop: %v", err)
	}
	<-deaf
	w.is(v, vmm.Stopped)
}

func TestStopEscalates(t *testing.T) {
	w := newWorld(t)
	w.close()
	w.grace = 20 * time.Millisecond
	w.driver.Hold = func(_ context.Context, s vmmtest.Step, _ string) error {
		if s == vmmtest.Stop {
			return errors.New("init does not listen")
		}
		return nil
	}
	w.driver.Guest = func(ctx context.Context, g vmmtest.Guest) {
		for ctx.Err() == nil { // one that comes back whatever it is told
			vmmtest.Agent(ctx, g)
		}
	}
	w.open()
	v := w.running("dev")
	if err := v.Stop(w.limit()); err != nil {
		t.Error(err)
	}
	w.is(v, vmm.Stopped)
}

// start asks for v to be started, and returns what comes of it.
func (w *world) start(v *vmm.VM) <-chan error {
	started := make(chan error, 1)
	go func() { started <- v.Start(w.limit()) }()
	return started
}

// TestDestroy removes a VM in each state, and one whose start waits its turn.
func TestDestroy(t *testing.T) {
	for name, prepare := range map[string]func(w *world, v *vmm.VM) (started <-chan error){
		"created": func(*world, *vmm.VM) <-chan error { return nil },
		"running": func(w *world, v *vmm.VM) <-chan error { w.must(v.Start(w.limit())); return nil },
		"suspended": func(w *world, v *vmm.VM) <-chan error {
			w.must(v.Start(w.limit()))
			w.must(v.Suspend(w.limit()))
			return nil
		},
		"starting": func(w *world, v *vmm.VM) <-chan error {
			there, _ := w.held(vmmtest.Start)
			started := w.start(v)
			<-there
			return started
		},
		"to be started": func(w *world, v *vmm.VM) <-chan error {
			there, _ := w.held(vmmtest.Start)
			w.start(v)
			<-there
			return w.start(v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			v := w.make("dev")
			started := prepare(w, v)
			w.must(v.Destroy(w.limit()))
			if started != nil && <-started == nil {
				t.Error("started")
			}
			if left := w.driver.Machines(); len(left) != 0 {
				t.Errorf("machines are left: %v", left)
			}
			if _, err := w.table.Lookup("dev"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("lookup: %v", err)
			}
		})
	}
}
