package vmm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/replica"
	"hutch/vmm/snapshot"
)

// maxUndo is how many files and folders the snapshots for undo have together,
// but for the last. Each takes room on the disk, and time to remove.
const maxUndo = 1 << 20

// maxWhat is how much is kept of what was about to be done.
const maxWhat = 200

// undoTime is how long a call waits for its snapshot.
const undoTime = time.Minute

// Undoes says whether a call or a command of exec/ is to have a snapshot
// before it.
func (v *VM) Undoes(call, exec bool) bool {
	switch v.Config().Undo {
	case profiles.UndoCalls:
		return call
	case profiles.UndoExecs:
		return exec
	case profiles.UndoAll:
		return call || exec
	}
	return false
}

// Before is called before something is done that may change the workspace: id
// is what Undo knows it by, what says what it is. It returns when the
// workspace can be put back to what it was when Before was called, or to what
// else was changed until it returned.
func (v *VM) Before(ctx context.Context, id, what string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, undoTime, fmt.Errorf("%w: the workspace is too large for a snapshot within %v: remove files from it, or set undo none", fs.ErrTimedOut, undoTime))
	defer cancel()
	ctx, done, err := v.errandAlone(ctx, v.undoing)
	if err != nil {
		return err
	}
	defer done()
	v.syncKernel(ctx)
	p := snapshot.Point{ID: id, Time: time.Now(), What: what[:min(len(what), maxWhat)]}
	same, err := v.sameAsLast(ctx, p)
	if err == nil && !same {
		_, err = v.take(ctx, p, func(d *snapshot.Draft, i *snapshot.Info) error { return v.copyStill(ctx, d, i) })
	}
	if err != nil {
		return fmt.Errorf("no snapshot to undo it by: %w", err)
	}
	return nil
}

// syncKernel is sync where the guest has a kernel of its own, that may not have
// told us of all it did. Others tell at once.
func (v *VM) syncKernel(ctx context.Context) {
	if d, err := v.t.driver(v.look().Driver); err == nil {
		if _, boots := d.(KernelBooter); boots {
			v.sync(ctx)
		}
	}
}

// sameAsLast says whether the workspace is what it was in the last snapshot
// for undo, and then notes that this is of p, too.
func (v *VM) sameAsLast(ctx context.Context, p snapshot.Point) (bool, error) {
	list, err := v.undoable()
	if err != nil || len(list) == 0 {
		return false, err
	}
	last, release, err := v.snaps.Hold(list[len(list)-1].Name)
	if err != nil {
		return false, nil
	}
	defer release()
	if of, err := v.snaps.Points(last.Name); err != nil || len(of) >= snapshot.MaxPoints {
		return false, nil
	}
	same, err := replica.Unchanged(ctx, v.WorkDir(), v.workOf(last.Name))
	if err != nil || !same {
		return false, err
	}
	return v.snaps.Note(last.Name, p) == nil, nil
}

func (v *VM) workOf(snapshot string) string { return v.ShownPart(snapshot, "work") }

// undoable returns the snapshots for undo, the oldest first.
func (v *VM) undoable() ([]snapshot.Info, error) {
	list, err := v.snaps.List()
	return slices.DeleteFunc(list, func(i snapshot.Info) bool { return !i.Undo }), err
}

// take takes a snapshot for undo, of p, whose files fill sees to, and returns
// its name.
func (v *VM) take(ctx context.Context, p snapshot.Point, fill func(*snapshot.Draft, *snapshot.Info) error) (string, error) {
	name := v.nameFor(p)
	d, err := v.snaps.Begin(name, v.dir, "work")
	if err != nil {
		return "", err
	}
	if err := d.At(p, "layer"); err != nil {
		return "", errors.Join(err, d.Abandon())
	}
	i := snapshot.Info{Automatic: true, Undo: true, Boot: snapshot.Boot(), Image: v.Config().Image, State: string(v.State())}
	if err = d.Ahead(ctx); err == nil {
		err = fill(d, &i)
	}
	if err != nil {
		return "", errors.Join(err, d.Abandon())
	}
	v.event(EventSnapshot, name)
	v.thinUndo()
	return name, nil
}

// nameFor returns a name for the snapshot of a point. Commands, one after the
// other, can have the same.
func (v *VM) nameFor(p snapshot.Point) string {
	base := undoPrefix + p.ID
	base = base[:min(len(base), 200)]
	name := base
	for n := 2; ; n++ {
		if _, err := v.snaps.Get(name); err != nil {
			return name
		}
		name = base + "." + strconv.Itoa(n)
	}
}

// copyStill completes a draft while the guest runs, or if it changes files
// meanwhile, while it stands still.
func (v *VM) copyStill(ctx context.Context, d *snapshot.Draft, i *snapshot.Info) error {
	i.Taken = time.Now()
	still, err := d.Still(ctx)
	if err != nil {
		return err
	}
	if !still {
		err = v.turn(ctx, func() (err error) {
			i.Taken = time.Now()
			v.syncKernel(ctx)
			i.Frozen, err = v.still(ctx, d.Copy)
			return err
		})
	}
	if err != nil {
		return err
	}
	return d.Commit(*i)
}

// thinUndo drops the oldest snapshots for undo, if there are too many. What is
// in them is removed later.
func (v *VM) thinUndo() {
	list, err := v.undoable()
	if err != nil {
		return
	}
	c, files, later := v.Config(), 0, int64(0)
	for n, i := range slices.Backward(list) {
		files += i.Cost.Files + i.Cost.Folders
		bytes := later + i.Cost.Linked + i.Cost.Copied // that this one and all later ones have, each once
		later += i.Cost.Copied
		full := files > maxUndo || c.Disk > 0 && bytes > 2*c.Disk
		if age := len(list) - 1 - n; age == 0 || age < c.UndoKeep && !full {
			continue
		}
		gone, err := v.snaps.Unname(i.Name)
		if err != nil {
			continue // it is being read, and goes the next time
		}
		v.event(EventDropped, i.Name)
		v.t.background(func() { v.fail(removeAll(gone)) })
	}
}

// dropUnsettled drops the snapshots for undo that may not have got to the disk
// before the host went down.
func (v *VM) dropUnsettled() {
	list, _ := v.undoable()
	for _, i := range list {
		if i.Boot != "" && i.Boot != snapshot.Boot() {
			replica.Trash(v.path("snap"), v.snaps.Dir(i.Name))
		}
	}
}
