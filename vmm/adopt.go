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
		if _, err := ParseConfig(v.seen.bad); err != nil {
			v.seen.err = err
		}
	}
	text, err := os.ReadFile(v.path("config"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		v.seen.text = string(text)
		v.seen.config, err = ParseConfig(v.seen.text)
	}
	return err
}

// unsettled says whether an earlier process was in the middle of something,
// or left a machine that runs: which it may not have been able to write down.
func (v *VM) unsettled() bool {
	s := v.look()
	asleep := s.State == Suspended && s.Machine == nil
	return s.State.alive() || v.damage != nil || asleep != v.has(savedName) || v.has(restoringName) || v.has("machine")
}

// adopt finds the machine that an earlier process left running, or cleans up
// after it. It is the first thing that the owner does.
func (v *VM) adopt(ctx context.Context) error {
	v.regroup()
	c := v.Config()
	d, err := v.t.driver(cmp.Or(v.look().Driver, c.Driver))
	switch {
	case err != nil && (v.has(savedName) || v.has(restoringName)):
		v.fallAsleep(err.Error())
		return err
	case err != nil:
		v.settle(err)
		return err
	}
	v.attend(d)
	m, err := d.Adopt(ctx, v.spec(c, image.Image{Name: c.Image}, nil), v.look().Machine)
	if m != nil { // if with an error, one that cannot be reached
		v.machine = m
	}
	switch {
	case v.has(savedName):
		v.sleep(false)
		return nil
	case m == nil && v.look().Unfinished:
		return v.unmake(false)
	case m == nil && v.has(restoringName):
		v.fallAsleep("")
		return nil
	case m == nil:
		v.settle(err)
		return nil
	case v.Anonymous():
		return v.endAdopted()
	}
	return v.goOn(ctx, err)
}

// settle notes that the VM has no machine, for the reason err. What is known
// of why it failed stays.
func (v *VM) settle(err error) {
	if now := v.look(); now.State == Failed {
		v.finish(Failed, now.Reason, EventFailed, false)
		return
	}
	if why := v.ranOut(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	v.finish(Stopped, err.Error(), EventStopped, false)
}

// goOn takes up the machine that was adopted. What is amiss, to begin with
// that it is for the reason err out of reach, is told and no reason to end it.
func (v *VM) goOn(ctx context.Context, err error) error {
	// It may have been paused, for a snapshot or a copy.
	if rerr := v.machine.Resume(ctx); rerr != nil {
		err = errors.Join(err, fmt.Errorf("%w: vm %q may be frozen: %w", fs.ErrIO, v.Name(), rerr))
	}
	if h := v.t.cfg.Hooks.Start; h != nil {
		err = errors.Join(err, h(ctx, v))
	}
	reason := ""
	if err = errors.Join(v.damage, err); v.fail(err) != nil {
		reason = fs.Text(err)
	}
	v.change(func(s *seen) {
		s.State, s.Reason, s.Unfinished = Running, reason, false
		if s.Since.IsZero() {
			s.Since = time.Now()
		}
	})
	v.keepMachine()
	v.t.event(v.Name(), EventAdopted, reason)
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
