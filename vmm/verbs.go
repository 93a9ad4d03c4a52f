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
		if err := v.awake(); err != nil {
			return err
		}
		was := v.look()
		return v.unready(v.start(), was)
	})
}

// Check says why the VM, which does not run, could not begin to start.
func (v *VM) Check(ctx context.Context) error {
	return v.do(ctx, func() error {
		if err := v.Editable(); err != nil {
			return err
		}
		ctx, done := v.unhurried(v.t.cfg.StartLimit)
		defer done()
		_, _, err := v.ready(ctx)
		v.change(func(s *seen) { s.Image = "" })
		return err
	})
}

// unready has a VM that could not even begin to start tell why not: what it
// failed or was stopped for before is not what keeps it from running now.
func (v *VM) unready(err error, was seen) error {
	if err == nil || was.Reason == "" || !v.look().Since.Equal(was.Since) {
		return err
	}
	var now stored
	v.change(func(s *seen) {
		s.Reason = err.Error()
		now = s.stored
	})
	if serr := now.save(v.dir, false); serr != nil {
		v.fail(serr)
	}
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
			return v.forget()
		}
		return v.notRunning()
	})
}

// Kill ends the VM at once, also one that is starting or stopping. Of a
// suspended VM the memory is given up.
func (v *VM) Kill(ctx context.Context) error {
	lived := v.State().alive()
	defer v.hurry()()
	return v.do(ctx, func() error {
		switch s := v.State(); {
		case s.alive():
			return v.stop(false, "")
		case s == Suspended:
			return v.forget()
		case lived: // and has ended meanwhile
			return nil
		}
		return v.notRunning()
	})
}

// Destroy removes the VM with all its files, whatever it is doing or has been
// told to do: its machine is killed, the memory of a suspended one given up.
func (v *VM) Destroy(ctx context.Context) error {
	defer v.hurry()()
	return v.do(ctx, v.destroy)
}

func (v *VM) destroy() error {
	var err error
	switch s := v.State(); {
	case s.alive():
		err = v.halt(false, "")
	case s == Suspended:
		err = v.giveUpMemory()
	}
	if err != nil {
		return err
	}
	return v.remove()
}

// Set gives the key of the VM's config the value; an empty one unsets it.
func (v *VM) Set(ctx context.Context, key, value string) error {
	return v.do(ctx, func() error {
		var c Config
		if err := c.set(key, value); err != nil {
			return err
		}
		if err := v.t.known(c); err != nil {
			return err
		}
		return v.setConfig(edit(v.look().text, key, value))
	})
}

// SetConfig puts text in the place of the VM's config. Where text does not
// parse it is kept, but the meaning of the old one stays in force.
func (v *VM) SetConfig(ctx context.Context, text string) error {
	return v.do(ctx, func() error { return v.setConfig(text) })
}

// Editable says why the config cannot be changed now.
func (v *VM) Editable() error {
	if v.State().alive() {
		return fmt.Errorf("%w: vm %q is running: stop it first", fs.ErrBusy, v.Name())
	}
	return v.awake()
}

func (v *VM) setConfig(text string) error {
	if err := v.Editable(); err != nil {
		return err
	}
	text = withoutDefaults(text)
	c, err := v.t.parse(text)
	if err != nil {
		if len(text) <= maxConfig {
			if werr := writeFile(v.path("config.bad"), []byte(text)); werr != nil {
				return werr
			}
			v.change(func(s *seen) { s.bad = text })
		}
		return err
	}
	if err := writeFile(v.path("config"), []byte(text)); err != nil {
		return err
	}
	os.Remove(v.path("config.bad"))
	v.change(func(s *seen) { s.config, s.text, s.bad = c, text, "" })
	return nil
}

// parse returns the meaning of a config's text, of which the driver is here.
func (t *Table) parse(text string) (Config, error) {
	c, err := ParseConfig(text)
	if derr := t.known(c); derr != nil {
		err = fmt.Errorf("config line %d: %w", lastLine(text, "driver"), derr)
	}
	return c, err
}

// known says that c's driver is not here, if so.
func (t *Table) known(c Config) error {
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

// clear says why the VM cannot be started for what was last written of its
// config and its profile: the meaning before is for machines that run.
func (v *VM) clear() error {
	if err := v.ConfigErr(); err != nil {
		return fmt.Errorf("%w: mend config first", err)
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
	return withDefaults(s.text, s.config, v.t.effective(s.config))
}

// Config returns the meaning of the VM's config, with defaults filled in.
func (v *VM) Config() Config { return v.t.effective(v.look().config) }

// notRunning says what to do, and what became of a VM that failed.
func (v *VM) notRunning() error {
	s := v.look()
	if s.State == Failed && s.Reason != "" {
		return fmt.Errorf("%w: vm %q is not running: it failed: %s: start it first", fs.ErrBusy, v.Name(), s.Reason)
	}
	return fmt.Errorf("%w: vm %q is not running: start it first", fs.ErrBusy, v.Name())
}

func (v *VM) path(name string) string { return filepath.Join(v.dir, name) }

// remove takes the VM, which has no machine, out of the table and off the disk.
func (v *VM) remove() error {
	trash, err := os.MkdirTemp(filepath.Dir(v.dir), ".gone-")
	if err == nil {
		err = os.Rename(v.dir, filepath.Join(trash, v.Name()))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		os.Remove(trash)
		return err
	}
	v.endErrands()
	v.gone = true
	close(v.quit)
	v.t.forget(v)
	if h := v.t.cfg.Hooks.Remove; h != nil {
		h(v)
	}
	v.t.event(v.Name(), EventRemoved, "")
	return removeAll(trash)
}
