package vmm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hutch/fs"
)

// stop does steps 5 and 6 (see start.go), for a reason if there is one to
// tell. An anonymous VM goes.
func (v *VM) stop(orderly bool, reason string) error {
	if err := v.halt(orderly, reason); err != nil || !v.Anonymous() {
		return err
	}
	return v.remove()
}

func (v *VM) halt(orderly bool, reason string) error {
	v.change(func(s *seen) { s.ending = Ending{haltText(orderly, reason), orderly} })
	v.enter(Stopping, reason, EventStopping)
	if orderly {
		v.shutDown()
	}
	if err := v.killMachine(); err != nil {
		v.change(func(s *seen) { s.ending = Ending{} })
		v.enter(Running, "", EventRunning)
		v.unwatch()
		v.watch()
		return fmt.Errorf("vm %q does not end: %w", v.Name(), err)
	}
	v.finish(Stopped, reason, EventStopped)
	return nil
}

func haltText(orderly bool, reason string) string {
	switch {
	case reason != "":
		return "stopped by limit " + reason
	case orderly:
		return "stopped"
	}
	return "killed"
}

// shutDown asks the agent, then the guest's init, to end, each with a grace
// time. A kill of the VM cuts both short.
func (v *VM) shutDown() {
	ctx, done := v.killable(v.t.cfg.StopGrace)
	defer done()
	if g, err := v.Guest(); err == nil && g.Shutdown(ctx) == nil {
		select {
		case <-v.machine.Done():
			return
		case <-ctx.Done():
		}
	}
	if errors.Is(context.Cause(ctx), errKilled) {
		return
	}
	ctx, done = v.killable(v.t.cfg.StopGrace)
	defer done()
	v.machine.Stop(ctx)
}

// machineEnded does step 6 for a machine that ended by itself.
func (v *VM) machineEnded() {
	if v.has(restoringName) { // its guest was never there
		err := fmt.Errorf("%w: vm %q: %s before the agent connected", fs.ErrIO, v.Name(), endText(v.machine.Err()))
		v.resumeFailed(context.Background(), v.fail(err))
		return
	}
	err := v.machine.Err()
	if why := v.ranOut(); why != nil && err != nil {
		err = why
	}
	if err != nil {
		v.fail(fmt.Errorf("%w: vm %q: %w", fs.ErrIO, v.Name(), err))
		v.finish(Failed, err.Error(), EventFailed)
		return
	}
	v.finish(Stopped, "guest shut down", EventStopped)
}

// finish does step 6, and for a VM that is suspended what is like it.
func (v *VM) finish(s State, reason string, kind Kind) {
	v.teardown(s, reason)
	v.enter(s, reason, kind)
}

// teardown ends all that belonged to a machine, which has ended or was let go,
// before the VM enters state s: first what watches it, then the guest's
// connections, what served it, its control group and its files.
func (v *VM) teardown(s State, reason string) {
	v.machine, v.due = nil, nil
	v.unwatch()
	if s == Suspended {
		v.leaveGuest()
		v.endSidecar()
	} else {
		v.change(func(s *seen) {
			if s.ending.Why == "" { // whoever has files of the guest open is to learn why they end
				s.ending.Why = reason
			}
		})
		v.closeGuest()
	}
	v.unconfine()
	removeAll(v.path("machine"))
}

// closeGuest gives up the guest and what served it.
func (v *VM) closeGuest() {
	if g := v.look().guest; g != nil {
		g.Close()
	}
	v.endSidecar()
	v.change(func(s *seen) { s.guest, s.Driver, s.Image, s.Programs = nil, "", "", nil })
}

// killMachine ends the machine, if there is one.
func (v *VM) killMachine() error {
	if v.machine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	return v.machine.Kill(ctx)
}

// endMachine is killMachine for a machine that is given up: one that does not
// end is let go.
func (v *VM) endMachine() error {
	err := v.killMachine()
	if err != nil {
		v.machine.Release()
	}
	return err
}

// killable returns a context of at most limit that a kill of the VM ends early.
func (v *VM) killable(limit time.Duration) (context.Context, func()) {
	ctx, interrupt := context.WithCancelCause(v.t.life)
	ctx, cancel := context.WithTimeout(ctx, limit)
	outer := v.look().interrupt
	v.change(func(s *seen) {
		s.interrupt = func(why error) {
			interrupt(why)
			if outer != nil {
				outer(why)
			}
		}
		if s.kills > 0 {
			interrupt(errKilled)
		}
	})
	return ctx, func() {
		v.change(func(s *seen) { s.interrupt = outer })
		cancel()
		interrupt(nil)
	}
}

// interrupt ends what the owner waits for, now and until done is called.
func (v *VM) interrupt() (done func()) {
	v.change(func(s *seen) {
		s.kills++
		if s.interrupt != nil {
			s.interrupt(errKilled)
		}
	})
	return func() { v.change(func(s *seen) { s.kills-- }) }
}
