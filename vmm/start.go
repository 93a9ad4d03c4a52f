package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
)

// What the owner does from start to end:
//
//	1. config, driver and image are looked up; up to here nothing changes
//	2. state starting; Sidecar.Begin
//	3. Driver.Start; the state file says how to find the machine again
//	4. the guest's agent connects; state running
//	5. the agent shuts the guest down, or the machine is killed, or dies (end.go)
//	6. Guest.Close, Sidecar.End; state stopped or failed (end.go)
//
// A step that fails after the first leads to 6.

// start does steps 1 to 4.
func (v *VM) start() error {
	ctx, done := v.killable(v.t.cfg.StartLimit)
	defer done()
	p, err := v.prepare(ctx) // 1
	if err == nil {
		err = v.settle()
	}
	if err == nil { // not before: no folder is to be made where another goes
		err = errors.Join(v.makeRoom(p), v.giveFirst(p.spec.Env))
	}
	if err != nil {
		return err
	}
	g := v.newGuest(p.driver)
	v.change(func(s *seen) { s.Began, s.Used, s.Ran = time.Now(), time.Time{}, 0 })
	v.enter(Starting, "", EventStarting) // 2
	err = v.beginSidecar(ctx)
	if err == nil {
		err = v.boot(ctx, p, p.driver.Start, g) // 3, and of 4 that the agent connects
	}
	if err == nil {
		v.Use()                            // that it took long to come up is no idleness
		v.enter(Running, "", EventRunning) // 4
		v.arm()
		v.watch()
		return nil
	}
	return v.undo(ctx, err) // 6
}

// A plan is what a machine is made of.
type plan struct {
	driver Driver
	config Config
	spec   Spec
}

// prepare does step 1. From then on the image is in use.
func (v *VM) prepare(ctx context.Context) (plan, error) {
	if err := v.startable(); err != nil {
		return plan{}, err
	}
	c := v.Config()
	v.change(func(s *seen) { s.Image = c.Image })
	p, err := v.plan(c)
	if err == nil {
		err = checkImageEnv(p.spec.Image)
	}
	if err == nil {
		err = v.fits(ctx, c)
	}
	if err != nil {
		v.change(func(s *seen) { s.Image = "" })
	}
	return p, err
}

// plan looks up what a machine of c is made of.
func (v *VM) plan(c Config) (p plan, err error) {
	p.config = c
	if p.driver, err = v.t.driver(c.Driver); err != nil {
		return p, err
	}
	if err := v.checkLimits(c); err != nil {
		return p, err
	}
	img, err := v.t.images.Lookup(c.Image)
	if err != nil {
		return p, err
	}
	env, err := v.Env()
	if err != nil {
		return p, err
	}
	p.spec = v.spec(c, img, env)
	p.spec.Mounts, err = v.mounts(c, p.driver, img)
	return p, err
}

// makeRoom makes the folders that a machine needs.
func (v *VM) makeRoom(p plan) error {
	return errors.Join(makeFolders(v.dir), removeAll(p.spec.Dir), os.MkdirAll(p.spec.Dir, 0o755))
}

// newGuest makes the guest that the connections of driver d's machine go to.
func (v *VM) newGuest(d Driver) *guest.Guest {
	g := guest.New()
	g.Refused = func() {
		v.event(EventPosed, "a process other than the agent connected to the agent's port")
	}
	v.change(func(s *seen) { s.guest, s.Driver, s.ending = g, d.Name(), Ending{} })
	return g
}

// boot does step 3, by the driver's method begin, and waits for the guest to
// connect, as step 4 begins.
func (v *VM) boot(ctx context.Context, p plan, begin func(context.Context, Spec) (Machine, error), g *guest.Guest) error {
	if err := v.confine(&p); err != nil {
		return err
	}
	m, err := begin(ctx, p.spec)
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
		if _, ok := d.(KernelBooter); ok {
			ctx, cancel := context.WithTimeout(v.life, clockLimit)
			defer cancel()
			now.guest.SetClock(ctx)
		}
	}
}

// keepMachine writes to the state file what Adopt will need.
func (v *VM) keepMachine() {
	used := v.lastUse()
	v.fail(v.store(false, func(s *seen) {
		s.Machine, s.pids, s.Programs, s.Used = v.machine.State(), v.machine.PIDs(), programs(v.machine), used
	}))
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

// undo ends the machine of a start that failed with err, does step 6, and returns
// the error.
func (v *VM) undo(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errKilled) {
		err = fmt.Errorf("%w: vm %q was killed while it started", fs.ErrInterrupted, v.Name())
	}
	if kerr := v.endMachine(); kerr != nil {
		err = fmt.Errorf("%w; and killing it: %w", err, kerr)
	}
	if why := v.ranOut(); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	v.finish(Failed, fs.Text(err), EventFailed)
	return err
}
