package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/relay/guest"
	"hutch/vmm"
)

// maxTCP is how many connections to ports of a sandbox there may be.
const maxTCP = 256

// A TCP is a connection to a port inside a sandbox, as clients have it. It ends
// with the machine, and with this service.
type TCP struct {
	ID   uint64 // no other object's
	Name string

	gateway.Held
	vm *Sandbox
	c  *guest.TCP
}

// TCPs returns the names of the connections.
func (v *Sandbox) TCPs() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.connections))
}

// TCP returns the connection called name.
func (v *Sandbox) TCP(name string) (*TCP, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.connections[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: connection %s", fs.ErrNotExist, name)
}

// MakeTCP makes a connection called name, which does not lead anywhere yet.
func (v *Sandbox) MakeTCP(ctx context.Context, name string) (*TCP, error) {
	return v.makeTCP(ctx, name, false)
}

// MakeAnonymousTCP makes a connection with a number for a name, which goes when
// the last of its holders has let go of it.
func (v *Sandbox) MakeAnonymousTCP(ctx context.Context) (*TCP, error) {
	for {
		if _, err := v.Guest(); err != nil {
			return nil, err // and no number is used up
		}
		t, err := v.makeTCP(ctx, strconv.FormatUint(v.lastTCP.Add(1), 10), true)
		if !fs.Is(err, fs.ErrExist) {
			return t, err
		}
	}
}

func (v *Sandbox) makeTCP(ctx context.Context, name string, anonymous bool) (*TCP, error) {
	g, err := v.Guest()
	if err == nil {
		err = v.beginTCP(name)
	}
	if err != nil {
		return nil, err
	}
	t := &TCP{ID: v.service.NextID(), Name: name, vm: v, Held: gateway.Held{Keep: v.Hold}}
	if anonymous {
		t.Unheld = t.Drop
	}
	// The guest has it by its number: it may not be done yet with another of that name.
	t.c, err = g.MakeTCP(ctx, strconv.FormatUint(t.ID, 10))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.makingConnections--
	switch {
	case err != nil:
		return nil, t.why(err)
	case v.connections[name] != nil:
		t.c.Close()
		return nil, fmt.Errorf("%w: connection %s", fs.ErrExist, name)
	}
	v.connections[name] = t
	return t, nil
}

// beginTCP counts one more, if there may be one of that name.
func (v *Sandbox) beginTCP(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.connections[name] != nil:
		return fmt.Errorf("%w: connection %s", fs.ErrExist, name)
	case len(v.connections)+v.makingConnections >= maxTCP:
		return fmt.Errorf("%w: vm %q has %d connections to its ports, and cannot have more", fs.ErrNoSpace, v.Name(), maxTCP)
	}
	v.makingConnections++
	return nil
}

// Drop ends the connection, and removes it.
func (t *TCP) Drop() {
	t.vm.mu.Lock()
	if t.vm.connections[t.Name] == t {
		delete(t.vm.connections, t.Name)
	}
	t.vm.mu.Unlock()
	t.c.Close()
}

// Ctl passes a message to the guest's ctl of the connection.
func (t *TCP) Ctl(ctx context.Context, message string) error { return t.why(t.c.Ctl(ctx, message)) }

// Status returns what the guest says of the connection, or that it is closed.
func (t *TCP) Status(ctx context.Context) (string, error) {
	text, err := t.c.Status(ctx)
	if errors.Is(err, guest.ErrTCPLost) || guest.IsGone(err) {
		return fmt.Sprintf("closed\nerror %s\n", fs.Text(t.why(err))), nil
	}
	return text, t.why(err)
}

// Read reads what came after what was read last.
func (t *TCP) Read(ctx context.Context, p []byte, nonblock bool) (int, error) {
	n, err := t.c.Read(ctx, p, nonblock)
	return n, t.why(err)
}

// Write sends p, or a part of it before ctx is done.
func (t *TCP) Write(ctx context.Context, p []byte) (int, error) {
	n, err := t.c.Write(ctx, p)
	return n, t.why(err)
}

// why gives the error of a connection that was lost the reason.
func (t *TCP) why(err error) error {
	if !errors.Is(err, guest.ErrTCPLost) {
		return t.vm.WhyGone(err)
	}
	if how := t.vm.Ending(); how.Why != "" {
		return fmt.Errorf("%w: vm %q: %s", err, t.vm.Name(), how.Why)
	}
	if s := t.vm.State(); s != vmm.Running {
		return fmt.Errorf("%w: vm %q is %s", err, t.vm.Name(), s)
	}
	return err
}

// dropTCPs removes the connections to a machine that is gone.
func (v *Sandbox) dropTCPs() {
	v.mu.Lock()
	all := slices.Collect(maps.Values(v.connections))
	v.mu.Unlock()
	for _, t := range all {
		t.Drop()
	}
}
