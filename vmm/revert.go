package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// How a VM is reverted:
//
//  1. the snapshot is copied to a folder of its own, while the VM may run
//  2. a machine that runs is killed: what it would still write is not wanted
//  3. the folder is renamed to reverting, which decides that it happens
//  4. each part of it changes places with that of the VM
//  5. the folder goes, and a VM that ran is started again
//
// If hutchd is killed before 3, nothing has happened but to the machine; after
// it the next hutchd does 4 and 5, but for the start. If 4 fails, it is done when
// the VM is started or reverted again.

const reverting = "reverting"

// Revert makes the VM's workspace and layer what they were in the snapshot
// called name. A VM that runs is killed, and started again when that is done.
func (v *VM) Revert(ctx context.Context, name string) error {
	ctx, done, err := v.errand(ctx)
	if err != nil {
		return err
	}
	defer done()
	s, release, err := v.snaps.Hold(name)
	if err != nil {
		return err
	}
	defer release()
	if s.Undo {
		return fmt.Errorf("%w: snapshot %q is of the workspace alone: undo %s", fs.ErrInvalid, name, name)
	}
	if err := v.revertible(s.Image); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(v.dir, ".new-")
	if err != nil {
		return err
	}
	_, err = replica.NewSet(v.snaps.Dir(name), dir, partNames...).Copy(ctx)
	if err == nil {
		err = layer.Settle(dir)
	}
	if err == nil {
		err = v.turn(ctx, func() error { return v.revert(dir, name, s.Image) })
	}
	return errors.Join(err, removeAll(dir))
}

// revertible says why the VM cannot be what it was with an image. A suspended
// one's memory would not fit its files.
func (v *VM) revertible(image string) error {
	if err := v.notSuspended(); err != nil {
		return err
	}
	if now := v.Config().Image; now != image {
		return fmt.Errorf("%w: the snapshot is of image %q and vm %q has %q: set image %s first", fs.ErrInvalid, image, v.Name(), now, image)
	}
	return nil
}

// revert does steps 2 to 5.
func (v *VM) revert(dir, name, image string) error {
	if err := v.revertible(image); err != nil {
		return err
	}
	ran := v.State().alive()
	if err := v.startable(); ran && err != nil {
		return err
	}
	if ran {
		if err := v.halt(false, ""); err != nil {
			return err
		}
	}
	if err := v.settle(); err != nil {
		return err
	}
	if err := os.Rename(dir, v.path(reverting)); err != nil {
		return err
	}
	if err := v.finishRevert(); err != nil {
		v.note(Stopped, fs.Text(err))
		return err
	}
	v.event(EventReverted, name)
	if ran {
		return v.start()
	}
	return nil
}

// finishRevert does what is left of step 4, and removes the folder.
func (v *VM) finishRevert() error {
	return v.moveIn(reverting, partNames, "reverted whole, start it or revert it")
}

// moveIn puts the parts that lie in a folder in the place of the VM's, and removes the
// folder, if it is there. Where that fails the error says what the VM is not.
func (v *VM) moveIn(folder string, parts []string, not string) error {
	next := v.path(folder)
	if _, err := os.Lstat(next); err != nil {
		return nil
	}
	for _, part := range parts {
		if err := exchange(v.path(part), filepath.Join(next, part), filepath.Join(next, "old-"+part)); err != nil {
			return fmt.Errorf("%w: vm %q is not %s to finish that: %w", fs.ErrIO, v.Name(), not, err)
		}
	}
	if err := layer.Settle(v.dir); err != nil {
		return err
	}
	trash, err := replica.Trash(v.dir, next)
	if err != nil {
		return err
	}
	return removeAll(trash)
}

// exchange moves the folder now to old, and next to now. It goes on where an
// earlier one was cut short.
func exchange(now, next, old string) error {
	if _, err := os.Lstat(next); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.Rename(now, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Rename(next, now)
}

// settle finishes an unpacking or a revert that was decided and failed.
func (v *VM) settle() error {
	if err := v.finishUnpack(); err != nil {
		return err
	}
	return v.finishRevert()
}

// sweep finds what was being made or removed when a process was killed, and
// finishes a revert or an unpacking that had been decided.
func (v *VM) sweep() {
	if v.has(unpacking) {
		if err := v.finishUnpack(); err != nil {
			v.seen.err = err
		}
		v.load()
	}
	if err := v.finishRevert(); err != nil {
		v.seen.err = err
	}
	v.dropUnsettled()
	if err := v.foundUndoing(); err != nil {
		v.seen.err = err
	}
	v.t.litter = slices.Concat(v.t.litter, replica.Leftovers(v.path("snap")), replica.Leftovers(v.dir))
}
