package vmmtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"hutch/vmm"
	"hutch/vmm/pack"
)

// A guest is the goroutine that runs Driver.Guest. It outlives its machine if
// that was saved, and goes on in the one that is restored.
type guest struct {
	end   context.CancelFunc
	life  context.Context
	ended chan struct{}

	mu      sync.Mutex // guards what follows
	machine *Machine
	paused  bool
	moved   chan struct{} // closed when one of the two changes
}

// startGuest gives m a guest of its own.
func startGuest(m *Machine) {
	g := &guest{machine: m, ended: make(chan struct{}), moved: make(chan struct{})}
	g.life, g.end = context.WithCancel(context.Background())
	run := m.d.Guest
	if run == nil {
		run = Agent
	}
	m.guest = g
	go func() {
		run(g.life, Guest{Spec: m.spec, Dial: g.dial})
		close(g.ended)
		if m := g.home(); m != nil {
			m.Die(nil)
			m.gone()
		}
	}()
}

func (g *guest) home() *Machine {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.machine
}

func (g *guest) change(m *Machine, paused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.machine, g.paused = m, paused
	close(g.moved)
	g.moved = make(chan struct{})
}

// running waits while the guest is paused, and returns its machine.
func (g *guest) running(ctx context.Context) (*Machine, error) {
	for {
		g.mu.Lock()
		m, paused, moved := g.machine, g.paused, g.moved
		g.mu.Unlock()
		if !paused && m != nil {
			return m, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-g.life.Done():
			return nil, g.life.Err()
		}
	}
}

func (g *guest) dial(ctx context.Context, port uint32) (net.Conn, error) {
	m, err := g.running(ctx)
	if err != nil {
		return nil, err
	}
	c, err := m.dial(port)
	if err != nil {
		return nil, err
	}
	return &conn{c, g}, nil
}

// A conn is a guest's end of a connection. Nothing comes or goes by it while
// the guest is paused.
type conn struct {
	net.Conn
	g *guest
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.running(c.g.life)
	return n, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.g.running(c.g.life)
	return c.Conn.Write(p)
}

// CloseWrite ends this side of the connection.
func (c *conn) CloseWrite() error { return c.Conn.(*net.UnixConn).CloseWrite() }

// Pause stops the guest at its next read or write. What runs of it without
// either, as commands do, runs on.
func (m *Machine) Pause(ctx context.Context) error {
	if err := m.d.hold(ctx, Pause, m.spec.Name); err != nil {
		return err
	}
	m.guest.change(m, true)
	return nil
}

// Resume lets the guest go on.
func (m *Machine) Resume(ctx context.Context) error {
	if err := m.d.hold(ctx, Resume, m.spec.Name); err != nil {
		return err
	}
	m.saved.Store("")
	m.guest.change(m, false)
	return nil
}

// saveName is the file that Save writes.
const saveName = "guest"

// Save notes which guest it was. Its connections are lost.
func (m *Machine) Save(ctx context.Context, dir string) error {
	if err := m.d.hold(ctx, Save, m.spec.Name); err != nil {
		return err
	}
	id := strconv.FormatInt(m.d.saves.Add(1), 10)
	if err := os.WriteFile(filepath.Join(dir, saveName), []byte(id), 0o600); err != nil {
		return err
	}
	m.saved.Store(id)
	m.hangUp(nil, false)
	return nil
}

// park ends the machine, but not its guest.
func (m *Machine) park(why error) {
	if !m.hangUp(why, true) {
		return
	}
	m.guest.change(nil, true)
	m.d.mu.Lock()
	if m.d.parked == nil {
		m.d.parked = make(map[string]*guest)
	}
	m.d.parked[m.saved.Load().(string)] = m.guest
	m.d.mu.Unlock()
	m.gone()
}

// Restore goes on with the guest that was saved into dir, if its machine was
// killed without having run on. Else, and the second time, it has no memory
// to start from but the disk: a new guest begins.
func (d *Driver) Restore(ctx context.Context, s vmm.Spec, dir string) (vmm.Machine, error) {
	if err := d.hold(ctx, Restore, s.Name); err != nil {
		return nil, err
	}
	id, err := os.ReadFile(filepath.Join(dir, saveName))
	if err != nil {
		return nil, fmt.Errorf("fake: saved state: %w", err)
	}
	d.mu.Lock()
	g := d.parked[string(id)]
	delete(d.parked, string(id))
	d.mu.Unlock()
	return d.begin(s, g)
}

// Carry has all go that Save wrote.
func (d *Driver) Carry(string) (pack.Memory, func(string) bool, error) {
	return pack.Memory{Needs: map[string]string{"fake": "1"}}, func(string) bool { return false }, nil
}

// Receive takes what a Driver of this kind has saved.
func (d *Driver) Receive(_ context.Context, _ vmm.Spec, _ string, needs map[string]string) error {
	if needs["fake"] != "1" {
		return fmt.Errorf("fake: saved state needs %v", needs)
	}
	return nil
}
