//go:build cgo

package vz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/Code-Hex/vz/v3"

	"hutch/fs"
	"hutch/fs/accept"
	"hutch/relay/port"
	"hutch/relay/vsock"
	"hutch/vmm"
	"hutch/vmm/qemu/share"
)

// A machine is one virtual machine of the framework.
type machine struct {
	spec  vmm.Spec
	shape shape
	vm    *vz.VirtualMachine
	share *share.Share

	ctx       context.Context // ends with the machine; for who is served
	end       context.CancelFunc
	listeners []*vz.VirtioSocketListener
	serving   sync.WaitGroup

	mu   sync.Mutex // held while the framework is told something; its calls do not overlap
	done chan struct{}
	err  error // valid after done
}

func newMachine(s vmm.Spec, sh shape, v *vz.VirtualMachine, served *share.Share) *machine {
	m := &machine{spec: s, shape: sh, vm: v, share: served, done: make(chan struct{})}
	m.ctx, m.end = context.WithCancel(context.Background())
	return m
}

// listen takes the connections that the guest makes. What comes on a machine's
// own socket device is its guest.
func (m *machine) listen() error {
	devices := m.vm.SocketDevices()
	if len(devices) != 1 {
		return fmt.Errorf("%w: vz: %d socket devices", fs.ErrIO, len(devices))
	}
	for _, n := range append(m.spec.Listen(), port.Share) {
		l, err := devices[0].Listen(n)
		if err != nil {
			return fmt.Errorf("port %d: %w", n, err)
		}
		m.listeners = append(m.listeners, l)
		m.serving.Go(func() { m.accept(l, n) })
	}
	return nil
}

func (m *machine) accept(l *vz.VirtioSocketListener, n uint32) {
	accept.Serve(m.ctx, l, func(c net.Conn) {
		switch {
		case m.posed(n, c):
			c.Close()
			m.spec.Refused(n, port.NotRoot)
		case n == port.Share:
			m.serving.Go(func() { m.serveShare(c) })
		default:
			m.spec.Conn(n, c)
		}
	}, nil)
}

// posed says whether c, to port n, is from a process that only says to be the
// guest's init.
func (m *machine) posed(n uint32, c net.Conn) bool {
	if !m.shape.Reserved || !port.Roots(n) {
		return false
	}
	v, ok := c.(*vz.VirtioSocketConnection)
	return !ok || v.SourcePort() >= vsock.FirstOpen
}

func (m *machine) serveShare(c net.Conn) {
	stop := context.AfterFunc(m.ctx, func() { c.Close() })
	defer stop()
	m.share.Serve(m.ctx, c)
}

// watch waits for the end of the machine, and sees to it that nothing is left.
func (m *machine) watch() {
	for state := range m.vm.StateChangedNotify() {
		if state == vz.VirtualMachineStateError {
			m.err = errors.New("machine ended: the framework met an error, or the guest crashed: see log/serial")
		}
		if state == vz.VirtualMachineStateStopped || state == vz.VirtualMachineStateError {
			break
		}
	}
	m.letGo()
	os.RemoveAll(m.spec.Dir)
	close(m.done)
}

// letGo ends what serves the machine.
func (m *machine) letGo() {
	m.end()
	for _, l := range m.listeners {
		l.Close()
	}
	m.share.Close()
	m.serving.Wait()
}

// Done is closed when the machine has ended and its files are removed.
func (m *machine) Done() <-chan struct{} { return m.done }

// Err says how the machine ended.
func (m *machine) Err() error { return m.err }

// Stop presses the machine's power button.
func (m *machine) Stop(ctx context.Context) error {
	return m.order(ctx, true, func() error {
		if !m.vm.CanRequestStop() {
			return errors.New("the machine has no power button")
		}
		_, err := m.vm.RequestStop()
		return err
	})
}

// Kill stops the machine's processors for good.
func (m *machine) Kill(ctx context.Context) error {
	return m.order(ctx, true, func() error {
		if !m.vm.CanStop() {
			return nil // it ends already
		}
		return m.vm.Stop()
	})
}

// order tells the framework something, and waits until it was done or, where
// that is the end of the machine, until that has ended.
func (m *machine) order(ctx context.Context, ends bool, f func() error) error {
	told := make(chan error, 1)
	go func() { // the framework cannot be hurried
		m.mu.Lock()
		defer m.mu.Unlock()
		select {
		case <-m.done:
			told <- nil
		default:
			told <- f()
		}
	}()
	select {
	case err := <-told:
		if err != nil {
			return fmt.Errorf("%w: vz: %w", fs.ErrIO, err)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !ends {
		return nil
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause stops the guest's processors, then what serves its files.
func (m *machine) Pause(ctx context.Context) error {
	return m.order(ctx, false, func() error {
		if m.vm.State() != vz.VirtualMachineStatePaused {
			if err := m.vm.Pause(); err != nil {
				return err
			}
		}
		m.share.Pause()
		return nil
	})
}

// Resume lets the guest's processors go on.
func (m *machine) Resume(ctx context.Context) error {
	return m.order(ctx, false, func() error {
		if m.vm.State() == vz.VirtualMachineStatePaused {
			if err := m.vm.Resume(); err != nil {
				return err
			}
		}
		m.share.Resume()
		return nil
	})
}

// Release ends the machine: it cannot run on without this process.
func (m *machine) Release() {
	m.Kill(context.Background())
}

// PIDs returns this process, which the machine is in.
func (m *machine) PIDs() []int { return []int{os.Getpid()} }

// State returns nothing of use: there is nothing to adopt.
func (m *machine) State() []byte { return []byte("{}") }
