package tree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/cmd/hutchd/gateway"
	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/workload"
	"hutch/fs"
	"hutch/vmm"
)

func rootVerbs() []verb {
	return []verb{
		{Name: "reload", Args: "[PROFILE]", Max: 1, Do: reload, Doc: "read the profiles, or the one, anew and give running VMs their servers"},
		{Name: "purge", Args: "[all]", Max: 1, Do: purge, Doc: "remove the VMs that neither run nor are suspended; all: stop and remove every VM"},
		{Name: "shutdown", Max: 0, Do: shutdown, Doc: "stop every VM, then the service"},
		{Name: "debug", Args: "on|off", Min: 1, Max: 1, Do: debug, Doc: "log more, or as usual"},
	}
}

func settings(c call) (string, error) {
	mode := "off"
	if c.At.s.cfg.Level.Level() == slog.LevelDebug {
		mode = "on"
	}
	return fmt.Sprintf("debug %s\nstate %s\nmount %s\nlisten %s\n", mode, c.At.s.cfg.State, c.At.s.cfg.Mount(), c.At.s.cfg.Listen), nil
}

func rootStatus(c call) (string, error) {
	var b strings.Builder
	for _, v := range c.At.s.List() {
		fmt.Fprintf(&b, "%s %s %s %s\n", v.Name(), v.State(), v.Config().Driver, v.Config().Image)
	}
	return b.String(), nil
}

func version(call) (string, error) {
	return fmt.Sprintf("hutch %s %s %s/%s\n", fs.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil
}

func drivers(c call) (string, error) {
	ctx, cancel := context.WithTimeout(c.Ctx, time.Minute) // as long as one may take that boots on a busy machine
	defer cancel()
	return c.At.s.Drivers(ctx), nil
}

func examined(c call) (string, error) {
	if c.At.s.cfg.Doctor == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(c.Ctx, time.Minute)
	defer cancel()
	return c.At.s.cfg.Doctor(ctx), nil
}

func debug(c call, args []string) error {
	switch args[0] {
	case "on":
		c.At.s.cfg.Level.Set(slog.LevelDebug)
	case "off":
		c.At.s.cfg.Level.Set(slog.LevelInfo)
	default:
		return fmt.Errorf("%w: debug is on or off, not %q", fs.ErrInvalid, args[0])
	}
	return nil
}

// reload reads the profiles anew, or the one, and has their VMs and servers go by them.
// What fails keeps none of the others from it.
func reload(c call, args []string) error {
	names := c.At.s.Profiles.Names()
	if len(args) > 0 {
		if !slices.Contains(names, args[0]) {
			return fmt.Errorf("%w: profile %q: see profiles, as hutch profile ls lists them", fs.ErrNotExist, args[0])
		}
		names = args
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, c.At.s.Profiles.Check(name))
	}
	passed := func(g *gateway.Gateway) bool {
		name := g.ProfileName()
		return len(args) > 0 && name != args[0] || c.At.s.Profiles.Check(name) != nil // whose error is told already
	}
	errs = append(errs, c.At.s.each(func(v *sandbox.Sandbox) error {
		if passed(v.Gateway) {
			return nil
		}
		if err := v.Reload(c.Ctx); err != nil {
			return fmt.Errorf("vm %s: %w", v.Name(), err)
		}
		return nil
	}))
	for _, g := range c.At.s.workloads.Gateways() {
		if passed(g) {
			continue
		}
		if err := g.Reload(c.Ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", g, err))
		}
	}
	return errors.Join(errs...)
}

// purge removes the VMs that neither run nor are suspended, or stops and
// removes all; sandboxes of servers stay, as those see to them. One that ends or goes meanwhile, as an anonymous one does when
// it is killed, is fine.
func purge(c call, args []string) error {
	all := len(args) == 1
	if all && args[0] != "all" {
		return fmt.Errorf("%w: purge what? want \"purge\" or \"purge all\"", fs.ErrInvalid)
	}
	return c.At.s.each(func(v *sandbox.Sandbox) error { return c.At.s.purge(c.Ctx, v, all) })
}

func (s *Server) purge(ctx context.Context, v *sandbox.Sandbox, all bool) error {
	var err error
	switch {
	case workload.Owner(v.Config().Profile) != "":
	case all:
		err = v.Destroy(ctx)
	case v.Running(), v.State() == vmm.Suspended:
	default:
		err = s.Remove(ctx, v.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// shutdown stops every VM and then has the service end. A VM that ends or goes
// meanwhile is fine.
func shutdown(c call, _ []string) error {
	err := c.At.s.each(func(v *sandbox.Sandbox) error {
		if !v.Running() || workload.Owner(v.Config().Profile) != "" { // those end with the service
			return nil
		}
		err := v.Stop(c.Ctx)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrBusy) && !v.Running() {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	c.At.s.cfg.Shutdown()
	return nil
}

// atOnce is how many VMs each works on at a time: most of it is waiting, for
// the disk and for guests.
const atOnce = 32

// each does f with every VM, and returns the errors in the order of the list.
func (s *Server) each(f func(*sandbox.Sandbox) error) error {
	list := s.List()
	errs := make([]error, len(list))
	turns := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, v := range list {
		turns <- struct{}{}
		wait.Go(func() {
			errs[i] = f(v)
			<-turns
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
