package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/vmm/snapshot"
)

// How a snapshot is taken:
//
//  1. what is in the workspace and the layer is copied while the guest runs
//  2. the VM's owner freezes the guest, has copied what changed since, and
//     lets it go on
//  3. the snapshot gets its name, when it is on the disk
//
// One that fails or is interrupted leaves nothing. If hutchd is killed in
// between, the next one lets the guest go on and removes the rest.

// Now is what the VM as it is now is called among its snapshots.
const Now = "now"

// Nothing is the name, where snapshots are compared, of the VM before anything was written
// to it.
const Nothing = "."

// taken are the names in the folder of snapshots that are none's.
var taken = []string{Now, "diff"}

// Snapshots returns the VM's snapshots.
func (v *VM) Snapshots() *snapshot.Store { return v.snaps }

// Snap takes a snapshot called name of the VM's workspace and layer.
// It returns when the snapshot is on the disk; ctx's end ends it.
func (v *VM) Snap(ctx context.Context, name string) error { return v.snap(ctx, name, false) }

func (v *VM) snap(ctx context.Context, name string, automatic bool) error {
	if err := checkSnapshot(name); err != nil {
		return err
	}
	ctx, done, err := v.errandAlone(ctx, v.snapping)
	if err != nil {
		return err
	}
	defer done()
	d, err := v.snaps.Begin(name, v.dir, partNames...)
	if err != nil {
		return err
	}
	i := snapshot.Info{Automatic: automatic, Image: v.Config().Image}
	v.sync(ctx) // so that there is little to write out later, which changes files' times
	err = d.Ahead(ctx)
	if err == nil {
		err = v.turn(ctx, func() (err error) {
			i.Taken, i.State = time.Now(), string(v.State())
			i.Frozen, err = v.frozen(ctx, d.Copy)
			return err
		})
	}
	if err == nil {
		err = d.Commit(i)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("no snapshot %q: %w", name, err), d.Abandon())
	}
	v.event(EventSnapshot, name)
	return nil
}

// checkSnapshot says what is wrong with name as the name of a snapshot.
func checkSnapshot(name string) error {
	if err := fs.CheckWord("snapshot", name); err != nil {
		return err
	}
	if slices.Contains(taken, name) {
		return fmt.Errorf("%w: %q is not the name of a snapshot: it means something else", fs.ErrInvalid, name)
	}
	return nil
}

// partNames are the folders of a VM that a snapshot keeps.
var partNames = []string{"work", "layer"}

// frozen does f while the guest stands still, if there is one, and returns
// for how long that was. The guest goes on whatever happens. It is told before
// to write out what it has.
func (v *VM) frozen(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	if v.machine != nil {
		v.sync(ctx)
	}
	return v.still(ctx, f)
}

// still is frozen, but does not tell the guest.
func (v *VM) still(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	m := v.machine
	if m == nil {
		return 0, f(ctx)
	}
	began := time.Now()
	obeys, done := v.killable(saveLimit) // a kill is not to wait for a guest that does not obey
	defer done()
	err := m.Pause(obeys)
	if err == nil {
		err = f(ctx)
	}
	if errors.Is(context.Cause(obeys), errKilled) { // which is what comes next
		return time.Since(began), cmp.Or(err, errKilled)
	}
	// Also after a Pause that failed: who knows what it did.
	rerr := m.Resume(context.WithoutCancel(ctx))
	took := time.Since(began)
	select {
	case <-m.Done(): // which leaves its files as they are
		return took, err
	default:
	}
	if rerr != nil {
		rerr = fmt.Errorf("%w: vm %q is frozen: %w", fs.ErrIO, v.Name(), rerr)
	} else {
		v.setClock() // which stood still as well
	}
	return took, errors.Join(err, rerr)
}

// sync has the guest write out what it keeps in memory of its files. One that
// does not has on its disk what it has.
func (v *VM) sync(ctx context.Context) {
	if g, err := v.Guest(); err == nil {
		g.Sync(ctx)
	}
}

// DropSnapshot removes the snapshot called name.
func (v *VM) DropSnapshot(ctx context.Context, name string) error {
	_, done, err := v.errand(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := v.snaps.Drop(name); err != nil {
		return err
	}
	v.event(EventDropped, name)
	return nil
}

// errand returns a context that ends with ctx and at the latest when the VM
// is removed or the table closed. The removal waits until done is called.
func (v *VM) errand(ctx context.Context) (_ context.Context, done func(), err error) {
	v.change(func(s *seen) {
		if v.life.Err() == nil {
			v.errands.Add(1)
		} else {
			err = notExist(s.Name)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(v.life, func() { cancel(fmt.Errorf("%w: vm %q goes", fs.ErrInterrupted, v.Name())) })
	return ctx, func() {
		stop()
		cancel(nil)
		v.errands.Done()
	}, nil
}

// errandAlone is errand for what takes a processor and the disk of the host
// and can be asked for by the guest, whatever its own limits are: of those
// with the same room the VM does one at a time, and the others wait.
func (v *VM) errandAlone(ctx context.Context, room chan struct{}) (_ context.Context, done func(), err error) {
	ctx, leave, err := v.errand(ctx)
	if err != nil {
		return nil, nil, err
	}
	select {
	case room <- struct{}{}:
		return ctx, func() { <-room; leave() }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
		leave()
		return nil, nil, err
	}
}

// endErrands ends what is done for the VM beside its owner.
func (v *VM) endErrands() {
	v.change(func(*seen) { v.end() })
	v.errands.Wait()
}

// turn has the owner do f, unless ctx ends before its turn comes. Once begun
// f is waited for: it looks at ctx itself.
func (v *VM) turn(ctx context.Context, f func() error) error {
	var begun atomic.Bool
	var result error
	ended := make(chan struct{})
	err := v.do(ctx, func() error {
		if begun.Swap(true) {
			return nil
		}
		defer close(ended)
		result = f()
		return result
	})
	if ctx.Err() != nil && begun.Swap(true) {
		<-ended
		return result
	}
	return err
}
