// Package vmmtest has a driver whose machines are goroutines, for tests of
// what stands on vmm. They boot at once, run the guest's side in the test's
// own process, and die on cue.
package vmmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"hutch/vmm"
)

// A Step is a point where a Driver asks its Hold whether to go on.
type Step string

// The steps.
const (
	Probe Step = "probe"
	Start Step = "start"
	Adopt Step = "adopt"
	Stop  Step = "stop" // an error is that of a guest that does not listen
	Kill  Step = "kill"

	Pause   Step = "pause"
	Resume  Step = "resume"
	Save    Step = "save"
	Restore Step = "restore"
)

// A Driver makes machines. Its machines outlive a table, as real ones do.
type Driver struct {
	// Guest is what runs in each machine: it dials the host's ports, and the
	// machine ends when it returns. Its context ends when the machine is
	// stopped or killed. Nil is Agent.
	Guest func(ctx context.Context, g Guest)
	// Hold, if set, is called at each step; it may wait, and fail the step.
	Hold func(ctx context.Context, step Step, vm string) error

	mu       sync.Mutex // guards what follows
	machines map[string]*Machine
	parked   map[string]*guest // guests of machines that were killed after a Save, by what that wrote

	saves atomic.Int64
}

// A Guest is what a guest knows of the machine it runs in.
type Guest struct {
	Spec vmm.Spec
	// Dial connects to a port of the host, and fails while no table has the machine.
	Dial func(ctx context.Context, port uint32) (net.Conn, error)
}

// Name returns "fake".
func (d *Driver) Name() string { return "fake" }

// Probe says that machines can be had.
func (d *Driver) Probe(ctx context.Context) (string, error) {
	return "goroutines", d.hold(ctx, Probe, "")
}

func (d *Driver) hold(ctx context.Context, s Step, vm string) error {
	if d.Hold == nil {
		return nil
	}
	return d.Hold(ctx, s, vm)
}

// Start starts a machine.
func (d *Driver) Start(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	if err := d.hold(ctx, Start, s.Name); err != nil {
		return nil, err
	}
	return d.begin(s, nil)
}

// begin makes a machine of the guest g, or of a new one.
func (d *Driver) begin(s vmm.Spec, g *guest) (*held, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.machines[s.Name] != nil {
		return nil, fmt.Errorf("fake: %s has a machine already", s.Name)
	}
	m := &Machine{d: d, spec: s, done: make(chan struct{})}
	m.saved.Store("")
	h := m.hold(s.Conn)
	if d.machines == nil {
		d.machines = make(map[string]*Machine)
	}
	d.machines[s.Name] = m
	if g == nil {
		startGuest(m)
	} else {
		m.guest = g
		g.change(m, false)
	}
	return h, nil
}

// Close ends every machine, and every guest that waits to be restored.
func (d *Driver) Close() {
	for _, name := range d.Machines() {
		if m := d.Machine(name); m != nil {
			m.Die(nil)
			<-m.done
		}
	}
	d.mu.Lock()
	parked := d.parked
	d.parked = nil
	d.mu.Unlock()
	for _, g := range parked {
		g.end()
		<-g.ended
	}
}

// Adopt finds the machine that runs under the name that the VM has, or had.
func (d *Driver) Adopt(ctx context.Context, s vmm.Spec, state []byte) (vmm.Machine, error) {
	if err := d.hold(ctx, Adopt, s.Name); err != nil {
		return nil, err
	}
	name := s.Name
	json.Unmarshal(state, &name)
	m := d.Machine(name)
	if m == nil {
		return nil, errors.New("sandbox ended while hutchd was away")
	}
	return m.hold(s.Conn), nil
}

// Machine returns the machine that runs for the VM, nil if none does.
func (d *Driver) Machine(vm string) *Machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.machines[vm]
}

// Machines returns the names of the VMs that machines run for.
func (d *Driver) Machines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.machines))
}
