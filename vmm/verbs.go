package vmm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/replica"
)

// errKilled ends what a VM's owner waits for when the VM is to be killed.
var errKilled = fmt.Errorf("%w: killed", fs.ErrInterrupted)

// killLimit is how long a killed machine may take to be gone.
const killLimit = 15 * time.Second

// Start makes the VM run, and returns when its guest has connected.
func (v *VM) Start(ctx context.Context) error {
	return v.do(ctx, func() error {
		if v.State().alive() {
			return fmt.Errorf("%w: vm %q is running already", fs.ErrBusy, v.Name())
		}
		if err := v.notSuspended(); err != nil {
			return err
		}
		was := v.look()
		return v.keepReason(v.start(), was)
	})
}

// Check says why the VM, which does not run, could not begin to start, also if
// its driver can run none here. A VM with a kernel of its own may start where
// the driver finds none: there only the start will tell.
func (v *VM) Check(ctx context.Context) error {
	return v.do(ctx, func() error {
		if err := v.Editable(); err != nil {
			return err
		}
		ctx, done := v.killable(v.t.cfg.StartLimit)
		defer done()
		p, err := v.prepare(ctx)
		v.change(func(s *seen) { s.Image = "" })
		if err != nil || p.spec.Kernel != "" {
			return err
		}
		if _, err := p.driver.Probe(ctx); err != nil {
			return fmt.Errorf("driver %s: %w", p.driver.Name(), err)
		}
		return nil
	})
}

// keepReason makes err the reason that status tells, if the VM could not even
// begin to start: why it ended before is not what keeps it from running now.
func (v *VM) keepReason(err error, was seen) error {
	if err == nil || was.Reason == "" || !v.look().Since.Equal(was.Since) {
		return err
	}
	v.fail(v.store(false, func(s *seen) { s.Reason = err.Error() }))
	return err
}

// Stop ends the VM in order: its agent is asked first, then its init; what is
// still there after a grace time is killed. Of a suspended VM the memory is
// given up. An anonymous VM is removed.
func (v *VM) Stop(ctx context.Context) error {
	return v.do(ctx, func() error {
		switch s := v.State(); {
		case s.alive():
			return v.stop(true, "")
		case s == Suspended:
			return v.stopSuspended()
		}
		return v.over()
	})
}

// Kill ends the VM at once, also one that is starting or stopping. Of a
// suspended VM the memory is given up.
func (v *VM) Kill(ctx context.Context) error {
	lived := v.State().alive()
	defer v.interrupt()()
	return v.do(ctx, func() error {
		switch s := v.State(); {
		case s.alive():
			return v.stop(false, "")
		case s == Suspended:
			return v.stopSuspended()
		case lived: // and has ended meanwhile
			return nil
		}
		return v.over()
	})
}

// Destroy removes the VM with all its files, whatever it is doing or has been
// told to do: its machine is killed, the memory of a suspended one given up.
func (v *VM) Destroy(ctx context.Context) error {
	defer v.interrupt()()
	return v.do(ctx, v.destroy)
}

func (v *VM) destroy() error {
	var err error
	switch s := v.State(); {
	case s.alive():
		err = v.halt(false, "")
	case s == Suspended:
		err = v.dropMemory()
	}
	if err != nil {
		return err
	}
	return v.remove()
}

// Set gives the key of the VM's config the value; an empty one unsets it. A config
// that does not parse is edited too, and must parse then.
func (v *VM) Set(ctx context.Context, key, value string) error {
	return v.do(ctx, func() error {
		var c Config
		if err := c.Set(key, value); err != nil {
			return err
		}
		if err := v.t.checkDriver(c); err != nil {
			return err
		}
		now := v.look()
		text := edit(cmp.Or(now.bad, now.text), key, value)
		switch _, err := v.t.parse(text); {
		case err != nil && now.bad != "":
			return fmt.Errorf("%w: mend that first, set changed nothing", err)
		case err != nil:
			return err
		}
		if err := v.setConfig(text); err != nil {
			return err
		}
		return v.confirm(key)
	})
}

// SetConfig puts text in the place of the VM's config. Where text does not
// parse it is kept, but the meaning of the old one stays in force.
func (v *VM) SetConfig(ctx context.Context, text string) error {
	return v.do(ctx, func() error {
		if err := v.setConfig(text); err != nil {
			return err
		}
		return v.confirm(outward...)
	})
}

// Editable says why the config cannot be changed now.
func (v *VM) Editable() error {
	if v.State().alive() {
		return fmt.Errorf("%w: vm %q is running: stop it first", fs.ErrBusy, v.Name())
	}
	return v.notSuspended()
}

func (v *VM) setConfig(text string) error {
	if err := v.Editable(); err != nil {
		return err
	}
	text = withoutDefaults(text)
	c, err := v.t.parse(text)
	if err != nil {
		if len(text) <= profiles.MaxConfig {
			if werr := fs.WriteFile(v.path("config.bad"), []byte(text), true); werr != nil {
				return werr
			}
			v.change(func(s *seen) { s.bad = text })
		}
		return err
	}
	if err := fs.WriteFile(v.path("config"), []byte(text), true); err != nil {
		return err
	}
	os.Remove(v.path("config.bad"))
	v.change(func(s *seen) { s.config, s.text, s.bad = c, text, "" })
	return nil
}

// parse returns the meaning of a config's text, of which the driver is here
// and which the profile admits.
func (t *Table) parse(text string) (Config, error) {
	c, err := profiles.ParseConfig(text)
	if derr := t.checkDriver(c); derr != nil {
		err = fmt.Errorf("config line %d: %w", lastLine(text, "driver"), derr)
	}
	if admit := t.profile(c).Admit; admit != nil && err == nil {
		var key string
		if key, err = admit(c); err != nil {
			err = fmt.Errorf("config line %d: %w", lastLine(text, key), err)
		}
	}
	return c, err
}

// checkDriver is an error if the driver that c names is not here.
func (t *Table) checkDriver(c Config) error {
	if _, err := t.driver(c.Driver); err != nil && c.Driver != "" {
		return fmt.Errorf("%w: no driver %q here: see drivers", fs.ErrInvalid, c.Driver)
	}
	return nil
}

// ConfigErr says why the config as it was last written does not count.
func (v *VM) ConfigErr() error {
	s := v.look()
	_, err := v.t.parse(cmp.Or(s.bad, s.text))
	return err
}

// startable is an error if the config or the profile, as last written, does
// not parse. What they meant before that holds for machines that run.
func (v *VM) startable() error {
	if err := v.ConfigErr(); err != nil {
		return fmt.Errorf("%w: mend config first", err)
	}
	if err := v.confirmed(); err != nil {
		return err
	}
	return v.t.profile(v.Config()).Err
}

// ConfigText returns the VM's config as it was last written, and if that
// parses, what holds of the keys that it does not say, as comments.
func (v *VM) ConfigText() string {
	s := v.look()
	if s.bad != "" {
		return s.bad
	}
	return withDefaults(s.text, s.config, v.t.effective(s.config).Config)
}

// Config returns the meaning of the VM's config, with defaults filled in.
func (v *VM) Config() Config { return v.t.effective(v.look().config).Config }

// notRunning says what to do, and what became of a VM that failed.
func (v *VM) notRunning() error { return fmt.Errorf("%w: start it first", v.over()) }

// over is the error of what ends a VM that is not running.
func (v *VM) over() error {
	s := v.look()
	if s.State == Failed && s.Reason != "" {
		return fmt.Errorf("%w: vm %q is not running: it failed: %s", fs.ErrBusy, v.Name(), s.Reason)
	}
	return fmt.Errorf("%w: vm %q is not running", fs.ErrBusy, v.Name())
}

func (v *VM) path(name string) string { return filepath.Join(v.dir, name) }

// remove takes the VM, which has no machine, out of the table and off the disk.
func (v *VM) remove() error {
	trash, err := replica.Trash(filepath.Dir(v.dir), v.dir)
	if err != nil {
		return err
	}
	v.endErrands()
	v.gone = true
	close(v.quit)
	v.t.drop(v.Name())
	v.side.Close()
	v.event(EventRemoved, "")
	return removeAll(trash)
}
