package workload

import (
	"context"
	"errors"
	"fmt"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
)

// Open ends what a hutchd before this one has left: sandboxes that run, whose
// programs nobody speaks with any more, and those whose owner is gone. Then it has
// the servers be there, and starts those that ran.
func (w *Workloads) Open() error {
	if err := w.load(); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	w.s.Later(func(ctx context.Context) error {
		var errs []error
		for _, v := range w.s.List() {
			if at, ok := placeOf(v.Config().Profile); ok {
				errs = append(errs, gone(w.recover(ctx, v, at)))
			}
		}
		return errors.Join(errs...)
	})
	for _, s := range w.Servers() {
		s.resume()
	}
	return nil
}

func (w *Workloads) recover(ctx context.Context, v *sandbox.Sandbox, at place) error {
	return w.use(ctx, at, func(own *box) error {
		switch {
		case own.text != "": // it was started meanwhile
			return nil
		case w.ownerless(at):
			return v.Destroy(ctx)
		case v.Running():
			return v.Kill(ctx)
		}
		return nil
	})
}

// ownerless says whether nobody has what a sandbox was for.
func (w *Workloads) ownerless(at place) bool {
	var err error
	switch at.kind {
	case ofVM:
		_, err = w.s.Lookup(at.owner)
	case alone:
		_, err = w.Server(at.server)
	}
	return errors.Is(err, fs.ErrNotExist)
}

// use does f when it is the caller's turn with a place.
func (w *Workloads) use(ctx context.Context, at place, f func(*box) error) error {
	own, err := w.box(at)
	if err != nil {
		return err
	}
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
		return f(own)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gone is nil where a VM has ended or is gone by itself, else err.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrBusy) {
		return nil
	}
	return err
}

// Forget has the sandboxes of a VM that was removed be removed, too. It does not
// wait for that.
func (w *Workloads) Forget(vm string) {
	w.s.Later(func(ctx context.Context) error {
		return w.each(ctx, func(at place) bool { return at.kind == ofVM && at.owner == vm }, (*sandbox.Sandbox).Destroy)
	})
}

// rest stops the sandbox of a server of servers/, drop removes it.
func (w *Workloads) rest(ctx context.Context, server string) error {
	return w.each(ctx, func(at place) bool { return at == place{kind: alone, server: server} }, kill)
}

func (w *Workloads) drop(ctx context.Context, server string) error {
	at := place{kind: alone, server: server}
	return w.use(ctx, at, func(own *box) error {
		own.text = ""
		v, err := w.s.Lookup(at.vm())
		if err == nil && v.Config().Profile == at.profile() {
			err = v.Destroy(ctx)
		}
		return gone(err)
	})
}

func kill(v *sandbox.Sandbox, ctx context.Context) error {
	if !v.Running() {
		return nil
	}
	return v.Kill(ctx)
}

// Close ends the servers, and then stops all sandboxes. None is started after it.
func (w *Workloads) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for _, s := range w.Servers() {
		s.Gateway.Close()
	}
	return w.each(ctx, func(place) bool { return true }, kill)
}

// each does f with the sandboxes that are wanted.
func (w *Workloads) each(ctx context.Context, wanted func(place) bool, f func(*sandbox.Sandbox, context.Context) error) error {
	w.mu.Lock()
	found := make(map[place]*box)
	for at, b := range w.boxes {
		if wanted(at) {
			found[at] = b
		}
	}
	w.mu.Unlock()
	var errs []error
	for at, b := range found {
		select {
		case b.turn <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if v, err := w.s.Lookup(at.vm()); err == nil {
			errs = append(errs, gone(f(v, ctx)))
		}
		<-b.turn
	}
	return errors.Join(errs...)
}
