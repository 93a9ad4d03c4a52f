package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hutch/fs/node"
	"hutch/vmm/image"
)

// load reads what is on disk of the VM.
func (v *VM) load() {
	s, err := loadState(v.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = stored{State: Created}
	case err != nil:
		s = stored{State: Failed, Reason: err.Error()}
		v.seen.err = fmt.Errorf("%w: vm %q: %w", node.ErrIO, v.name, err)
	}
	v.anon = s.Anonymous
	v.seen.stored = s
	if err := v.loadConfig(); err != nil {
		v.seen.err = err
	}
}

func (v *VM) loadConfig() error {
	if bad, err := os.ReadFile(v.path("config.bad")); err == nil {
		v.seen.bad = string(bad)
		if _, err := ParseConfig(v.seen.bad); err != nil {
			v.seen.err = err
		}
	}
	text, err := os.ReadFile(v.path("config"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		v.seen.text = string(text)
		v.seen.config, err = ParseConfig(v.seen.text)
	}
	return err
}

// adopt finds the machine that an earlier process left running, or cleans up
// after it. It is the first thing that the owner does.
func (v *VM) adopt(ctx context.Context) error {
	c := v.Config()
	d, err := v.t.driver(cmp.Or(v.look().Driver, c.Driver))
	if err != nil {
		v.finish(Stopped, err.Error(), EventStopped, false)
		return err
	}
	v.attend(d)
	m, err := d.Adopt(ctx, v.spec(c, image.Image{Name: c.Image}, nil), v.look().Machine)
	if err != nil {
		v.finish(Stopped, err.Error(), EventStopped, false)
		return nil
	}
	v.machine = m
	// It may have been killed while it took a snapshot.
	if err := m.Resume(ctx); err != nil {
		v.fail(fmt.Errorf("%w: vm %q may be frozen: %w", node.ErrIO, v.name, err))
	}
	if v.anon {
		return v.endAdopted()
	}
	if hooked, err := v.hookStart(ctx); err != nil {
		return v.undo(ctx, err, hooked)
	}
	v.change(func(s *seen) { s.State, s.Reason = Running, "" })
	v.keepMachine()
	v.t.event(v.name, EventAdopted, "")
	v.arm()
	return nil
}

// discard removes an anonymous VM of an earlier process: who held it went
// with that.
func (v *VM) discard() error {
	if v.State().alive() {
		if err := v.adopt(v.t.life); err != nil {
			return err
		}
	}
	return v.remove()
}

func (v *VM) endAdopted() error {
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	err := v.machine.Kill(ctx)
	v.finish(Stopped, "", EventStopped, false)
	return err
}

// release lets go of the VM: a named one runs on, an anonymous one ends.
func (v *VM) release() error {
	var err error
	switch {
	case v.anon && v.State().alive():
		err = v.stop(false)
	case v.anon:
		err = v.remove()
	case v.machine != nil:
		v.keepMachine()
		v.machine.Release()
		v.machine = nil
		v.leave(true)
	}
	if !v.gone {
		close(v.quit)
	}
	return err
}
