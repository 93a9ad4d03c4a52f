package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hutch/fs/node"
)

// errKilled ends what a VM's owner waits for when the VM is to be killed.
var errKilled = fmt.Errorf("%w: killed", node.ErrInterrupted)

// killLimit is how long a killed machine may take to be gone.
const killLimit = 15 * time.Second

// Start makes the VM run, and returns when its guest has connected.
func (v *VM) Start(ctx context.Context) error {
	return v.do(ctx, func() error {
		if v.State().alive() {
			return fmt.Errorf("%w: vm %q is running", node.ErrBusy, v.Name())
		}
		if err := v.awake(); err != nil {
			return err
		}
		return v.start()
	})
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

// Set gives the key of the VM's config the value; an empty one unsets it.
func (v *VM) Set(ctx context.Context, key, value string) error {
	return v.do(ctx, func() error {
		var c Config
		if err := c.set(key, value); err != nil {
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
		return fmt.Errorf("%w: vm %q is running: stop it first", node.ErrBusy, v.Name())
	}
	return v.awake()
}

func (v *VM) setConfig(text string) error {
	if err := v.Editable(); err != nil {
		return err
	}
	c, err := ParseConfig(text)
	if err == nil && c.Driver != "" {
		if _, derr := v.t.driver(c.Driver); derr != nil {
			err = fmt.Errorf("%w: no driver %q here", node.ErrInvalid, c.Driver)
		}
	}
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

// ConfigText returns the VM's config as it was last written, and for one
// that never was, what it means.
func (v *VM) ConfigText() string {
	s := v.look()
	switch {
	case s.bad != "":
		return s.bad
	case s.text != "":
		return s.text
	}
	return v.t.effective(s.config).Text()
}

// Config returns the meaning of the VM's config, with defaults filled in.
func (v *VM) Config() Config { return v.t.effective(v.look().config) }

func (v *VM) notRunning() error {
	return fmt.Errorf("%w: vm %q is not running", node.ErrBusy, v.Name())
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
