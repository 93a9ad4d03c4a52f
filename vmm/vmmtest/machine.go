package vmmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"hutch/fs/duplex"
	"hutch/relay/agent"
	"hutch/vmm"
)

// A Machine is a goroutine that runs Driver.Guest.
type Machine struct {
	d     *Driver
	spec  vmm.Spec
	guest *guest
	done  chan struct{}
	going sync.Once

	saved atomic.Value // string: by the last Save, if nothing ran since; else ""

	mu     sync.Mutex // guards what follows
	holder *held
	conns  []net.Conn // the guest's ends
	dead   bool
	err    error
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
	near, host, err := duplex.Conns()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	holder := m.holder
	refused := m.dead || holder == nil
	if !refused {
		m.conns = append(m.conns, near)
	}
	m.mu.Unlock()
	if refused {
		near.Close()
		host.Close()
		return nil, fmt.Errorf("dial port %d: %w", port, syscall.ECONNREFUSED)
	}
	holder.conn(port, host)
	return near, nil
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
	m.mu.Lock()
	defer m.mu.Unlock()
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
		m.d.mu.Lock()
		delete(m.d.machines, m.spec.Name)
		m.d.mu.Unlock()
		m.mu.Lock()
		defer m.mu.Unlock()
		close(m.done)
		if m.holder != nil {
			close(m.holder.done)
		}
	})
}

// Done is closed when the guest's goroutine has ended.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err returns what Die was told.
func (m *Machine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
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
	if m.saved.Load() != "" {
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
	m.mu.Lock()
	m.holder = nil
	m.mu.Unlock()
	m.hangUp(nil, false)
}

// A held machine is one as the table has it that started or adopted it. After
// Release, or when another table adopted the machine, it does not see the
// machine's end: no more does a hutchd that crashed.
type held struct {
	*Machine
	conn func(port uint32, c net.Conn) // takes the guest's connections
	done chan struct{}
}

// hold gives m to a table.
func (m *Machine) hold(conn func(port uint32, c net.Conn)) *held {
	h := &held{m, conn, make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holder = h
	select {
	case <-m.done:
		close(h.done)
	default:
	}
	return h
}

// Done is closed when the machine has ended and the table has it still.
func (h *held) Done() <-chan struct{} { return h.done }

// Release releases the machine, unless another table has it.
func (h *held) Release() {
	h.mu.Lock()
	mine := h.holder == h
	h.mu.Unlock()
	if mine {
		h.Machine.Release()
	}
}

// PIDs returns this process.
func (m *Machine) PIDs() []int { return []int{os.Getpid()} }

// State returns the VM's name.
func (m *Machine) State() []byte {
	data, _ := json.Marshal(m.spec.Name)
	return data
}
