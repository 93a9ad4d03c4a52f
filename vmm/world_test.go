package vmm_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// A world is a state folder, a driver whose machines outlive tables, and the
// table that is open.
type world struct {
	*testing.T
	dir    string
	driver *vmmtest.Driver
	table  *vmm.Table
	hooks  hooks
	grace  time.Duration
	starts time.Duration
	looks  time.Duration
	strict bool // limits must be enforced

	hearing sync.Mutex // guards events
	events  []string
	heard   chan struct{} // closed at the next event
}

// Hooks are what a test has the sidecars do. Nil ones do nothing.
type hooks struct {
	Start    func(v *vmm.VM) error
	Stop     func(v *vmm.VM)
	Close    func(v *vmm.VM)
	PIDs     func(v *vmm.VM) []int
	Busy     func(v *vmm.VM) bool
	Reverted func(v *vmm.VM)
}

// A sidecar tells the world of its VM's events.
type sidecar struct {
	w     *world
	v     *vmm.VM
	hooks hooks
}

func (s *sidecar) Begin(context.Context) error {
	if s.hooks.Start == nil {
		return nil
	}
	return s.hooks.Start(s.v)
}

func (s *sidecar) End()                      { call(s.hooks.Stop, s.v) }
func (s *sidecar) Close()                    { call(s.hooks.Close, s.v) }
func (s *sidecar) Conn(_ uint32, c net.Conn) { c.Close() }
func (s *sidecar) Busy() bool                { return s.hooks.Busy != nil && s.hooks.Busy(s.v) }

func (s *sidecar) Helpers() []int {
	if s.hooks.PIDs == nil {
		return nil
	}
	return s.hooks.PIDs(s.v)
}

func (s *sidecar) Event(e vmm.Event) {
	if e.Kind == vmm.EventReverted {
		call(s.hooks.Reverted, s.v)
	}
	s.w.hear(e)
}

func call(hook func(*vmm.VM), v *vmm.VM) {
	if hook != nil {
		hook(v)
	}
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), driver: &vmmtest.Driver{}, heard: make(chan struct{})}
	w.open()
	t.Cleanup(func() {
		w.close()
		w.driver.Close()
	})
	return w
}

func (w *world) open() {
	w.Helper()
	table, err := vmm.Open(vmm.Options{
		Dir: w.dir, Drivers: []vmm.Driver{w.driver}, StopGrace: w.grace, StartLimit: w.starts, MeasureLimit: w.looks, RequireLimits: w.strict,
		Sidecar: w.sidecar,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.table = table
}

func (w *world) sidecar(v *vmm.VM) vmm.Sidecar { return &sidecar{w, v, w.hooks} }

func (w *world) close() {
	w.Helper()
	if err := w.table.Close(w.limit()); err != nil {
		w.Error(err)
	}
}

func (w *world) hear(e vmm.Event) {
	w.hearing.Lock()
	defer w.hearing.Unlock()
	w.events = append(w.events, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.VM, e.Kind, e.Text)))
	close(w.heard)
	w.heard = make(chan struct{})
}

// await waits until an event was told.
func (w *world) await(want string) {
	w.Helper()
	limit := w.limit()
	for {
		w.hearing.Lock()
		there, heard := slices.Contains(w.events, want), w.heard
		w.hearing.Unlock()
		if there {
			return
		}
		select {
		case <-heard:
		case <-limit.Done():
			w.Fatalf("no event %q in %q", want, w.events)
		}
	}
}

// limit is for what takes a second at most, unless the disk has much else to write.
func (w *world) limit() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) make(name string) *vmm.VM {
	w.Helper()
	v, err := w.table.Make(w.limit(), name)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) running(name string) *vmm.VM {
	w.Helper()
	v := w.make(name)
	if err := v.Start(w.limit()); err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) lookup(name string) *vmm.VM {
	w.Helper()
	v, err := w.table.Lookup(name)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// is checks a VM's state and that its status tells it.
func (w *world) is(v *vmm.VM, want vmm.State) {
	w.Helper()
	if got := v.State(); got != want {
		w.Errorf("vm %s is %s, want %s", v.Name(), got, want)
	}
	if !strings.HasPrefix(v.Status(), string(want)+"\n") {
		w.Errorf("status %q, want %s", v.Status(), want)
	}
}

func wantErr(t testing.TB, err error, want string) {
	t.Helper()
	if got := fs.Text(err); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
