package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"hutch/fs"
	"hutch/vmm/guest"
)

// What the owner does from start to end:
//
//	1. config, driver and image are looked up; up to here nothing changes
//	2. state starting; Hooks.Start
//	3. Driver.Start; the state file says how to find the machine again
//	4. the guest's agent connects; state running
//	5. the agent shuts the guest down, or the machine is killed, or dies
//	6. Guest.Close, Hooks.Stop; state stopped or failed
//
// A step that fails after the first leads to 6.

// start does steps 1 to 4.
func (v *VM) start() error {
	ctx, done := v.unhurried(v.t.cfg.StartLimit)
	defer done()
	d, spec, err := v.ready(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(v.finishRevert(), folders(v.dir), removeAll(spec.Dir), os.MkdirAll(spec.Dir, 0o755)); err != nil {
		return err
	}
	g := v.attend(d)
	v.change(func(s *seen) { s.Began, s.Used, s.Ran = time.Now(), time.Time{}, 0 })
	v.enter(Starting, "", EventStarting)
	hooked, err := v.hookStart(ctx)
	if err == nil {
		err = v.boot(ctx, d, spec, g)
	}
	if err == nil {
		v.Use() // that it took long to come up is no idleness
		v.enter(Running, "", EventRunning)
		v.arm()
		v.watch()
		return nil
	}
	return v.undo(ctx, err, hooked)
}

// ready does step 1. From then on the image is in use.
func (v *VM) ready(ctx context.Context) (Driver, Spec, error) {
	if err := v.clear(); err != nil {
		return nil, Spec{}, err
	}
	c := v.Config()
	v.change(func(s *seen) { s.Image = c.Image })
	d, spec, err := v.needs(c)
	if err == nil {
		err = v.fits(ctx, c)
	}
	if err != nil {
		v.change(func(s *seen) { s.Image = "" })
	}
	return d, spec, err
}

// needs looks up what a machine of c is made of.
func (v *VM) needs(c Config) (Driver, Spec, error) {
	d, err := v.t.driver(c.Driver)
	if err != nil {
		return nil, Spec{}, err
	}
	img, err := v.t.images.Lookup(c.Image)
	if err != nil {
		return nil, Spec{}, err
	}
	env, err := v.Env()
	if err != nil {
		return nil, Spec{}, err
	}
	spec := v.spec(c, img, env)
	spec.Mounts, err = v.mounts(c, d, img)
	return d, spec, err
}

// attend makes the guest that the connections of driver d's machine go to.
func (v *VM) attend(d Driver) *guest.Guest {
	g := guest.New()
	g.Refused = func() {
		v.t.event(v.Name(), EventPosed, "a process other than the agent connected to the agent's port")
	}
	v.change(func(s *seen) { s.guest, s.Driver, s.ending = g, d.Name(), Ending{} })
	return g
}

func (v *VM) hookStart(ctx context.Context) (bool, error) {
	if h := v.t.cfg.Hooks.Start; h != nil {
		if err := h(ctx, v); err != nil {
			if h := v.t.cfg.Hooks.Stop; h != nil {
				h(v)
			}
			return false, err
		}
	}
	return true, nil
}

// boot starts the machine and waits for its guest to connect.
func (v *VM) boot(ctx context.Context, d Driver, spec Spec, g *guest.Guest) error {
	if err := v.confine(d, v.Config(), &spec); err != nil {
		return err
	}
	m, err := d.Start(ctx, spec)
	if err != nil {
		return err
	}
	v.machine = m
	v.keepMachine()
	if err := v.awaitGuest(ctx, m, g); err != nil {
		return err
	}
	v.setClock()
	return nil
}

// clockLimit is how long a guest is waited for that is told the time.
const clockLimit = 5 * time.Second

// setClock tells a guest with a clock of its own the time. One that cannot be
// told, as of an earlier version, has that which it has.
func (v *VM) setClock() {
	now := v.look()
	if d, err := v.t.driver(now.Driver); err == nil && now.guest != nil {
		if _, ok := d.(Booter); ok {
			ctx, cancel := context.WithTimeout(v.life, clockLimit)
			defer cancel()
			now.guest.SetClock(ctx)
		}
	}
}

// keepMachine writes to the state file what Adopt will need.
func (v *VM) keepMachine() {
	var now stored
	used := v.lastUse()
	v.change(func(s *seen) {
		s.Machine, s.pids, s.Programs, s.Used = v.machine.State(), v.machine.PIDs(), programs(v.machine), used
		now = s.stored
	})
	v.fail(now.save(v.dir, false))
}

func (v *VM) awaitGuest(ctx context.Context, m Machine, g *guest.Guest) error {
	ready, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-m.Done():
			stop(fmt.Errorf("%w: %s before the agent connected", fs.ErrIO, endText(m.Err())))
		case <-ready.Done():
		}
	}()
	err := g.Ready(ready)
	cause := context.Cause(ready)
	stop(nil)
	<-watched
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%w: the guest did not connect in %s; see log/serial", fs.ErrTimedOut, v.t.cfg.StartLimit)
	case cause != nil:
		return cause
	}
	return err
}

func endText(err error) string {
	if err == nil {
		return "guest shut down"
	}
	return err.Error()
}

// undo ends what start began and returns its error.
func (v *VM) undo(ctx context.Context, err error, hooked bool) error {
	if cause := context.Cause(ctx); errors.Is(cause, errKilled) {
		err = fmt.Errorf("%w: vm %q was killed while it started", fs.ErrInterrupted, v.Name())
	}
	if v.machine != nil {
		kctx, cancel := context.WithTimeout(context.Background(), killLimit)
		defer cancel()
		if kerr := v.machine.Kill(kctx); kerr != nil {
			err = fmt.Errorf("%w; and killing it: %w", err, kerr)
			v.machine.Release()
		}
	}
	if why := v.ranOut(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	v.finish(Failed, fs.Text(err), EventFailed, hooked)
	return err
}

// stop does steps 5 and 6, for a reason if there is one to tell. An anonymous
// VM goes.
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
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	if err := v.machine.Kill(ctx); err != nil {
		v.change(func(s *seen) { s.ending = Ending{} })
		v.enter(Running, "", EventRunning)
		v.unwatch()
		v.watch()
		return fmt.Errorf("vm %q does not end: %w", v.Name(), err)
	}
	v.finish(Stopped, reason, EventStopped, true)
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
	ctx, done := v.unhurried(v.t.cfg.StopGrace)
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
	ctx, done = v.unhurried(v.t.cfg.StopGrace)
	defer done()
	v.machine.Stop(ctx)
}

// machineEnded does step 6 for a machine that ended by itself.
func (v *VM) machineEnded() {
	if v.has(restoringName) { // its guest was never there
		err := fmt.Errorf("%w: vm %q: %s before the agent connected", fs.ErrIO, v.Name(), endText(v.machine.Err()))
		v.relapse(context.Background(), v.fail(err), true)
		return
	}
	err := v.machine.Err()
	if why := v.ranOut(); why != nil && err != nil {
		err = why
		v.t.event(v.Name(), EventOOM, why.Error())
	}
	if err != nil {
		v.fail(fmt.Errorf("%w: vm %q: %w", fs.ErrIO, v.Name(), err))
		v.finish(Failed, err.Error(), EventFailed, true)
		return
	}
	v.finish(Stopped, "guest shut down", EventStopped, true)
}

// finish does step 6.
func (v *VM) finish(s State, reason string, kind Kind, hooked bool) {
	v.machine, v.due = nil, nil
	v.unwatch()
	v.change(func(s *seen) {
		if s.ending.Why == "" { // whoever has files of the guest open is to learn why they end
			s.ending.Why = reason
		}
	})
	v.leave(hooked)
	v.unconfine()
	removeAll(v.path("machine"))
	v.enter(s, reason, kind)
}

// leave gives up the guest and what Hooks.Start made.
func (v *VM) leave(hooked bool) {
	if g := v.look().guest; g != nil {
		g.Close()
	}
	if h := v.t.cfg.Hooks.Stop; h != nil && hooked {
		h(v)
	}
	v.change(func(s *seen) { s.guest, s.Driver, s.Image, s.Programs = nil, "", "", nil })
}

// unhurried returns a context of at most limit that a kill of the VM ends early.
func (v *VM) unhurried(limit time.Duration) (context.Context, func()) {
	ctx, hurry := context.WithCancelCause(v.t.life)
	ctx, cancel := context.WithTimeout(ctx, limit)
	outer := v.look().hurry
	v.change(func(s *seen) {
		s.hurry = func(why error) {
			hurry(why)
			if outer != nil {
				outer(why)
			}
		}
		if s.kills > 0 {
			hurry(errKilled)
		}
	})
	return ctx, func() {
		v.change(func(s *seen) { s.hurry = outer })
		cancel()
		hurry(nil)
	}
}

// hurry ends what the owner waits for, now and until done is called.
func (v *VM) hurry() (done func()) {
	v.change(func(s *seen) {
		s.kills++
		if s.hurry != nil {
			s.hurry(errKilled)
		}
	})
	return func() { v.change(func(s *seen) { s.kills-- }) }
}
