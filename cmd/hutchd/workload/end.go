package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"hutch/fs"
)

// Open ends what a hutchd before this one has left: sandboxes that run, whose
// programs nobody speaks with any more, and those whose owner is gone. Then it has
// the servers be there, and starts those that ran.
func (w *Workloads) Open() error {
	if err := w.loadGroups(); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := w.load(); err != nil {
		return fmt.Errorf("servers: %w", err)
	}
	close(w.opened)
	w.s.Later(func(ctx context.Context) error {
		var left []place
		for _, v := range w.s.List() {
			if at, ok := placeOf(v.Config().Profile); ok {
				left = append(left, at)
			}
		}
		return w.each(ctx, left, w.recover)
	})
	for _, s := range w.Servers() {
		s.resume()
	}
	return nil
}

// recover ends a sandbox that the hutchd before has left, if it was not started meanwhile.
func (w *Workloads) recover(ctx context.Context, at place, own *box) error {
	switch {
	case own.text != "":
		return nil
	case w.ownerless(at):
		return w.drop(ctx, at, own)
	}
	return w.rest(ctx, at, own)
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
func (w *Workloads) use(ctx context.Context, at place, f func(context.Context, place, *box) error) error {
	own, err := w.take(ctx, at)
	if err != nil {
		return err
	}
	defer own.give()
	return f(ctx, at, own)
}

// unlessGone is nil where a VM has ended or is gone by itself, else err.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrBusy) {
		return nil
	}
	return err
}

// Forget has the sandboxes of a VM that was removed be removed, too. It does not
// wait for that.
func (w *Workloads) Forget(vm string) {
	w.s.Later(func(ctx context.Context) error {
		return w.each(ctx, w.places(func(at place) bool { return at.kind == ofVM && at.owner == vm }), w.drop)
	})
}

// drop removes the sandbox of a place that is to be nobody's.
func (w *Workloads) drop(ctx context.Context, at place, own *box) error {
	v, err := w.s.Lookup(at.vm())
	if err == nil && v.Config().Profile == at.profile() {
		err = v.Destroy(ctx)
	}
	if err = unlessGone(err); err != nil {
		return err
	}
	w.s.Profiles.Withdraw(at.profile())
	own.gone = true
	w.mu.Lock()
	delete(w.boxes, at)
	w.mu.Unlock()
	return nil
}

// ofServer returns the place of a server of servers/.
func ofServer(name string) place { return place{kind: alone, server: name} }

// rest stops the sandbox of a place, if it runs.
func (w *Workloads) rest(ctx context.Context, at place, _ *box) error {
	v, err := w.s.Lookup(at.vm())
	if err == nil && v.Running() {
		err = v.Kill(ctx)
	}
	return unlessGone(err)
}

// Close ends the servers, and then stops all sandboxes. None is started after it.
func (w *Workloads) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range w.Servers() {
		closing.Go(s.Gateway.Close)
	}
	for _, g := range w.Groups() {
		closing.Go(g.Gateway.Close)
	}
	closing.Wait()
	return w.each(ctx, w.places(func(place) bool { return true }), w.rest)
}

// atOnce is how many sandboxes are ended at the same time.
const atOnce = 16

// places returns the places of sandboxes that are wanted.
func (w *Workloads) places(wanted func(place) bool) []place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(w.boxes)), func(at place) bool { return !wanted(at) })
}

// each does f with the sandboxes of places.
func (w *Workloads) each(ctx context.Context, places []place, f func(context.Context, place, *box) error) error {
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, at := range places {
		all.Go(func() error { return w.use(ctx, at, f) })
	}
	return all.Wait()
}
