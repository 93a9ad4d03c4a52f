//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"hutch/vmm"
	"hutch/vmm/image"
	"hutch/vmm/process"
	"hutch/vmm/qemu/qmp"
	"hutch/vmm/qemu/share"
)

// A machine is one QEMU.
type machine struct {
	spec  vmm.Spec
	found found
	p     *process.Process
	qmp   *qmp.Conn
	share *share.Share
	port  *port
	why   atomic.Value // string: how the guest ended, as QEMU says

	done chan struct{}
	err  error // valid after done

	releasing sync.Once
	released  chan struct{}
	watched   chan struct{} // closed when watch has returned
}

// found is what a machine's State says.
type found struct {
	PID    int          `json:"pid"`
	Binds  []image.Bind `json:"binds,omitempty"` // that it is served
	Mounts []vmm.Mount  `json:"mounts,omitempty"`
	Shape  shape        `json:"shape"`
}

// attach returns the machine of s that runs as the process p and is as f says.
// Its wire is w, if it has one.
func attach(ctx context.Context, s vmm.Spec, p *process.Process, served *share.Share, f found, w *wire) (*machine, error) {
	m := &machine{
		spec: s, found: f, p: p, share: served,
		done: make(chan struct{}), released: make(chan struct{}), watched: make(chan struct{}),
	}
	var err error
	if m.qmp, err = dialQMP(ctx, s.Dir, m.event); err != nil {
		return nil, err
	}
	status, err := m.status(ctx)
	if err != nil {
		m.qmp.Close()
		return nil, err
	}
	if stopped(status) {
		served.Pause()
	}
	m.port = openPort(m, w)
	go m.watch()
	return m, nil
}

func dialQMP(ctx context.Context, dir string, event func(qmp.Event)) (*qmp.Conn, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return qmp.Dial(ctx, short(folder, "qmp"), event)
}

// event takes what QEMU tells. The first reason that a guest ended for is the
// one that counts.
func (m *machine) event(e qmp.Event) {
	if e.Name == "SHUTDOWN" {
		var how struct{ Reason string }
		json.Unmarshal(e.Data, &how)
		m.why.CompareAndSwap(nil, how.Reason)
	}
}

// watch waits for the end of the machine, and sees to it that nothing is left.
func (m *machine) watch() {
	defer close(m.watched)
	select {
	case <-m.released:
		return
	case <-m.p.Gone():
	}
	select {
	case <-m.released: // which ends what Gone says, too
		return
	case <-m.qmp.Done(): // and has told all
	}
	m.err = m.how()
	m.letGo()
	os.RemoveAll(m.spec.Dir)
	close(m.done)
}

// how says how the machine ended.
func (m *machine) how() error {
	switch why, _ := m.why.Load().(string); why {
	case "guest-shutdown":
		m.p.Status() // collects it
		return nil
	case "guest-reset", "guest-panic":
		m.p.Status()
		return errors.New("guest crashed or restarted (see log/serial)")
	}
	if err := m.p.How("machine"); err != nil {
		return err
	}
	return errors.New("machine ended")
}

// letGo ends what serves a machine that is not watched, and gives it up.
func (m *machine) letGo() {
	m.share.Close() // first: what is held up there holds up the port
	m.port.close()
	m.qmp.Close()
	m.p.LetGo()
}

// Done is closed when the process has ended and its files are removed.
func (m *machine) Done() <-chan struct{} { return m.done }

// Err says how the machine ended.
func (m *machine) Err() error { return m.err }

// Stop presses control, alt and delete, which Linux tells the guest's init.
func (m *machine) Stop(ctx context.Context) error {
	type key struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	var keys []key
	for _, name := range []string{"ctrl", "alt", "delete"} {
		keys = append(keys, key{"qcode", name})
	}
	if err := m.qmp.Do(ctx, "send-key", map[string]any{"keys": keys}, nil); err != nil && !m.ended() {
		return err
	}
	return m.wait(ctx)
}

// Kill kills the process.
func (m *machine) Kill(ctx context.Context) error {
	if m.ended() {
		return nil
	}
	if err := m.p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("machine: %w", err)
	}
	return m.wait(ctx)
}

func (m *machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func (m *machine) wait(ctx context.Context) error {
	select {
	case <-m.watched:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !m.ended() {
		return errReleased
	}
	return nil
}

// errReleased is returned for a machine that is another process' to end.
var errReleased = errors.New("machine was released")

// Release ends serving and watching. The guest's connections wait for the
// next process.
func (m *machine) Release() {
	m.releasing.Do(func() {
		close(m.released)
		<-m.watched
		if !m.ended() {
			m.letGo()
		}
	})
}

// PIDs returns the machine's process.
func (m *machine) PIDs() []int { return []int{m.found.PID} }

// State returns what Adopt needs.
func (m *machine) State() []byte {
	data, _ := json.Marshal(m.found)
	return data
}
