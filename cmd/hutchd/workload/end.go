package workload

import (
	"context"
	"errors"

	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
)

// Recover ends what a hutchd before this one has left: sandboxes that run, whose
// programs nobody speaks with any more, and those whose owner is gone.
func (w *Workloads) Recover(ctx context.Context) error {
	var errs []error
	for _, v := range w.s.List() {
		if owner, ok := ownerOf(v.Config().Profile); ok {
			errs = append(errs, gone(w.recover(ctx, v, owner)))
		}
	}
	return errors.Join(errs...)
}

func (w *Workloads) recover(ctx context.Context, v *sandbox.Sandbox, owner string) error {
	own, err := w.box(v.Name(), owner)
	if err != nil {
		return err
	}
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = w.s.Lookup(owner)
	switch {
	case own.text != "": // it was started meanwhile
		return nil
	case owner != "" && errors.Is(err, fs.ErrNotExist):
		return v.Destroy(ctx)
	case v.Running():
		return v.Kill(ctx)
	}
	return nil
}

// gone is err but where the VM has ended or is gone by itself.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrBusy) {
		return nil
	}
	return err
}

// Forget has the sandboxes of an owner that was removed be removed, too. It does
// not wait for that.
func (w *Workloads) Forget(owner string) {
	w.s.Later(func(ctx context.Context) error {
		return w.each(ctx, func(b *box) bool { return b.owner == owner }, func(v *sandbox.Sandbox) error { return v.Destroy(ctx) })
	})
}

// Close stops all sandboxes, and has none started after it.
func (w *Workloads) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	return w.each(ctx, func(*box) bool { return true }, func(v *sandbox.Sandbox) error {
		if !v.Running() {
			return nil
		}
		return v.Kill(ctx)
	})
}

// each does f with the sandboxes that are wanted, and forgets them.
func (w *Workloads) each(ctx context.Context, wanted func(*box) bool, f func(*sandbox.Sandbox) error) error {
	w.mu.Lock()
	found := make(map[string]*box)
	for name, b := range w.boxes {
		if wanted(b) {
			found[name] = b
			delete(w.boxes, name)
		}
	}
	w.mu.Unlock()
	var errs []error
	for name, b := range found {
		select {
		case b.turn <- struct{}{}: // for good
		case <-ctx.Done():
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		if v, err := w.s.Lookup(name); err == nil {
			errs = append(errs, gone(f(v)))
		}
	}
	return errors.Join(errs...)
}
