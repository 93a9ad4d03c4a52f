package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/image"
)

// load reads what is on disk of the VM.
func (v *VM) load() {
	s, err := loadState(v.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		s = stored{State: Created}
	case err != nil:
		s = stored{State: Failed, Reason: err.Error()}
		v.damage = err
		v.seen.err = fmt.Errorf("%w: vm %q: %w", fs.ErrIO, v.Name(), err)
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
		if _, err := profiles.ParseConfig(v.seen.bad); err != nil {
			v.seen.err = err
		}
	}
	text, err := os.ReadFile(v.path("config"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		v.seen.text = string(text)
		v.seen.config, err = profiles.ParseConfig(v.seen.text)
	}
	return err
}

// needsAdoption says whether an earlier process was in the middle of something
// or left a machine that runs, even if it could not write that down.
func (v *VM) needsAdoption() bool {
	s := v.look()
	suspended := s.State == Suspended && s.Machine == nil
	return s.State.alive() || v.damage != nil || suspended != v.has(savedName) || v.has(restoringName) || v.has("machine")
}

// adopt finds the machine that an earlier process left running, or cleans up
// after it. It is the first thing that the owner does.
func (v *VM) adopt(ctx context.Context) error {
	v.findGroup()
	c := v.Config()
	d, err := v.t.driver(cmp.Or(v.look().Driver, c.Driver))
	switch {
	case err != nil && (v.has(savedName) || v.has(restoringName)):
		v.suspendAgain(err.Error())
		return err
	case err != nil:
		v.adoptEnded(err)
		return err
	}
	v.newGuest(d)
	m, err := d.Adopt(ctx, v.spec(c, image.Image{Name: c.Image}, nil), v.look().Machine)
	if m != nil { // if with an error, one that cannot be reached
		v.machine = m
	}
	switch {
	case v.has(savedName):
		v.keepSaved()
		return nil
	case m == nil && v.look().Unfinished:
		return v.removeFork()
	case m == nil && v.has(restoringName):
		v.suspendAgain("")
		return nil
	case m == nil:
		v.adoptEnded(err)
		return nil
	case v.Anonymous():
		err := v.endMachine()
		v.finish(Stopped, "", EventStopped)
		return err
	}
	return v.adoptRunning(ctx, err)
}

// adoptEnded notes that the VM has no machine, for the reason err. What is known
// of why it failed stays.
func (v *VM) adoptEnded(err error) {
	if now := v.look(); now.State == Failed {
		v.finish(Failed, now.Reason, EventFailed)
		return
	}
	if why := v.ranOut(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	v.finish(Stopped, err.Error(), EventStopped)
}

// adoptRunning takes up the machine that was found running; err says why it is
// out of reach, if it is. No error ends it, not even one of Sidecar.Begin: the VM
// runs whatever is amiss, is served as far as that goes, and errors are told.
func (v *VM) adoptRunning(ctx context.Context, err error) error {
	// It may have been paused, for a snapshot or a copy.
	if rerr := v.machine.Resume(ctx); rerr != nil {
		err = errors.Join(err, fmt.Errorf("%w: vm %q may be frozen: %w", fs.ErrIO, v.Name(), rerr))
	}
	reason := ""
	if err = errors.Join(v.damage, err, v.beginSidecar(ctx)); v.fail(err) != nil {
		reason = fs.Text(err)
	}
	v.change(func(s *seen) {
		s.State, s.Reason, s.Unfinished = Running, reason, false
		if s.Since.IsZero() {
			s.Since = time.Now()
		}
	})
	v.keepMachine()
	v.event(EventAdopted, reason)
	v.arm()
	v.watch()
	v.t.background(v.setClock)
	if v.has(restoringName) {
		v.awaitRestored()
	}
	return nil
}

// discard removes an anonymous VM of an earlier process: who held it went
// with that.
func (v *VM) discard() error {
	if v.needsAdoption() {
		if err := v.adopt(v.t.life); err != nil {
			return err
		}
	}
	return v.remove()
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
		v.closeGuest()
	case v.look().guest != nil: // suspended
		v.look().guest.Close()
	}
	if !v.gone {
		close(v.quit)
	}
	return err
}
