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
	"os"
	"slices"
	"sync"
	"syscall"

	"hutch/relay/agent"
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

	running  sync.Mutex // guards what follows
	machines map[string]*Machine
	parked   map[string]*guest // guests of machines that were killed after a Save, by what that wrote
	saves    int
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
func (d *Driver) begin(s vmm.Spec, g *guest) (*Machine, error) {
	d.running.Lock()
	defer d.running.Unlock()
	if d.machines[s.Name] != nil {
		return nil, fmt.Errorf("fake: %s has a machine already", s.Name)
	}
	m := &Machine{d: d, spec: s, done: make(chan struct{}), conn: s.Conn}
	if d.machines == nil {
		d.machines = make(map[string]*Machine)
	}
	d.machines[s.Name] = m
	if g == nil {
		startGuest(m)
	} else {
		m.guest = g
		g.moveTo(m)
	}
	return m, nil
}

// Close ends every machine, and every guest that waits to be restored.
func (d *Driver) Close() {
	for _, name := range d.Machines() {
		if m := d.Machine(name); m != nil {
			m.Die(nil)
			<-m.done
		}
	}
	d.running.Lock()
	parked := d.parked
	d.parked = nil
	d.running.Unlock()
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
	m.talking.Lock()
	m.conn = s.Conn
	m.talking.Unlock()
	return m, nil
}

// Machine returns the machine that runs for the VM, nil if none does.
func (d *Driver) Machine(vm string) *Machine {
	d.running.Lock()
	defer d.running.Unlock()
	return d.machines[vm]
}

// Machines returns the names of the VMs that machines run for.
func (d *Driver) Machines() []string {
	d.running.Lock()
	defer d.running.Unlock()
	return slices.Sorted(maps.Keys(d.machines))
}

// A Machine is a goroutine that runs Driver.Guest.
type Machine struct {
	d     *Driver
	spec  vmm.Spec
	guest *guest
	done  chan struct{}
	going sync.Once

	talking sync.Mutex // guards what follows
	conn    func(port uint32, c net.Conn)
	conns   []net.Conn // the guest's ends
	saved   string     // by the last Save, if nothing ran since
	dead    bool
	err     error
}

// Agent runs a guest's agent in this process: its commands are commands of
// the test's machine, and its root is the test machine's.
func Agent(ctx context.Context, g Guest) {
	a, err := agent.New(agent.Config{Dial: func(ctx context.Context) (net.Conn, error) {
		return g.Dial(ctx, vmm.PortAgent)
	}})
	if err == nil {
		a.Run(ctx)
	}
}

func (m *Machine) dial(port uint32) (net.Conn, error) {
	near, host, err := pair()
	if err != nil {
		return nil, err
	}
	m.talking.Lock()
	conn := m.conn
	refused := m.dead || conn == nil
	if !refused {
		m.conns = append(m.conns, near)
	}
	m.talking.Unlock()
	if refused {
		near.Close()
		host.Close()
		return nil, fmt.Errorf("dial port %d: %w", port, syscall.ECONNREFUSED)
	}
	conn(port, host)
	return near, nil
}

// pair returns the two ends of a connection.
func pair() (net.Conn, net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "fake guest")
		ends[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return ends[0], ends[1], nil
}

// Die ends the machine as if it had died for the reason err: at once, with
// all its connections. A nil err is a guest that shut itself down.
func (m *Machine) Die(err error) {
	if m.hangUp(err, true) {
		m.guest.end()
	}
}

// hangUp ends the guest's connections, and if last is set there are no more.
func (m *Machine) hangUp(err error, last bool) bool {
	m.talking.Lock()
	defer m.talking.Unlock()
	if m.dead {
		return false
	}
	if last {
		m.dead, m.err = true, err
	}
	for _, c := range m.conns {
		c.Close()
	}
	m.conns = nil
	return true
}

// gone takes the machine out of the driver.
func (m *Machine) gone() {
	m.going.Do(func() {
		m.d.running.Lock()
		delete(m.d.machines, m.spec.Name)
		m.d.running.Unlock()
		close(m.done)
	})
}

// Done is closed when the guest's goroutine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err returns what Die was told.
func (m *Machine) Err() error {
	m.talking.Lock()
	defer m.talking.Unlock()
	return m.err
}

// Stop ends the guest's context.
func (m *Machine) Stop(ctx context.Context) error {
	if err := m.d.hold(ctx, Stop, m.spec.Name); err != nil {
		return err
	}
	m.guest.end()
	return m.wait(ctx)
}

// Kill ends the guest's context and its connections. What was saved last is
// left for Restore.
func (m *Machine) Kill(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	default:
	}
	if err := m.d.hold(ctx, Kill, m.spec.Name); err != nil {
		return err
	}
	killed := errors.New("sandbox ended: signal killed")
	if m.savedAs() != "" {
		m.park(killed)
	} else {
		m.Die(killed)
	}
	return m.wait(ctx)
}

func (m *Machine) wait(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Release makes the guest lose its connections, and its dials fail until the
// machine is adopted.
func (m *Machine) Release() {
	m.talking.Lock()
	m.conn = nil
	m.talking.Unlock()
	m.hangUp(nil, false)
}

// PIDs returns this process.
func (m *Machine) PIDs() []int { return []int{os.Getpid()} }

// State returns the VM's name.
func (m *Machine) State() []byte {
	data, _ := json.Marshal(m.spec.Name)
	return data
}
