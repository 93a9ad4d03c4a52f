package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
		v.seen.err = fmt.Errorf("%w: vm %q: %w", node.ErrIO, v.Name(), err)
	}
	s.Name = cmp.Or(s.Name, filepath.Base(v.dir))
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

// unsettled says whether an earlier process was in the middle of something,
// or left a machine that runs.
func (v *VM) unsettled() bool {
	s := v.look()
	asleep := s.State == Suspended && s.Machine == nil
	return s.State.alive() || asleep != v.has(savedName) || v.has(restoringName)
}

// adopt finds the machine that an earlier process left running, or cleans up
// after it. It is the first thing that the owner does.
func (v *VM) adopt(ctx context.Context) error {
	c := v.Config()
	d, err := v.t.driver(cmp.Or(v.look().Driver, c.Driver))
	switch {
	case err != nil && (v.has(savedName) || v.has(restoringName)):
		v.fallAsleep(err.Error())
		return err
	case err != nil:
		if why := v.ranOut(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		v.finish(Stopped, err.Error(), EventStopped, false)
		return err
	}
	v.attend(d)
	m, err := d.Adopt(ctx, v.spec(c, image.Image{Name: c.Image}, nil), v.look().Machine)
	if err == nil {
		v.machine = m
	}
	switch {
	case v.has(savedName):
		v.sleep(false)
		return nil
	case err != nil && v.look().Unfinished:
		return v.unmake(false)
	case err != nil && v.has(restoringName):
		v.fallAsleep("")
		return nil
	case err != nil:
		if why := v.ranOut(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		v.finish(Stopped, err.Error(), EventStopped, false)
		return nil
	case v.Anonymous():
		return v.endAdopted()
	}
	return v.goOn(ctx)
}

// goOn takes up the machine that was adopted.
func (v *VM) goOn(ctx context.Context) error {
	// It may have been paused, for a snapshot or a copy.
	if err := v.machine.Resume(ctx); err != nil {
		v.fail(fmt.Errorf("%w: vm %q may be frozen: %w", node.ErrIO, v.Name(), err))
	}
	if hooked, err := v.hookStart(ctx); err != nil {
		return v.undo(ctx, err, hooked)
	}
	v.change(func(s *seen) { s.State, s.Reason, s.Unfinished = Running, "", false })
	v.keepMachine()
	v.t.event(v.Name(), EventAdopted, "")
	v.arm()
	v.watch()
	if v.has(restoringName) {
		v.awaitRestored()
	}
	return nil
}

// discard removes an anonymous VM of an earlier process: who held it went
// with that.
func (v *VM) discard() error {
	if v.unsettled() {
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
	case v.Anonymous() && v.State().alive():
		err = v.stop(false, "")
	case v.Anonymous():
		err = v.remove()
	case v.machine != nil:
		v.unwatch()
		v.keepMachine()
		v.machine.Release()
		v.machine = nil
		v.leave(true)
	case v.look().guest != nil: // suspended
		v.look().guest.Close()
	}
	if !v.gone {
		close(v.quit)
	}
	return err
}
