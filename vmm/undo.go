package vmm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/replica"
	"hutch/vmm/snapshot"
)

// How a call or command can be undone:
//
//  1. before it begins, the workspace is compared with the last snapshot for
//     undo, by the stamps of files. If it is that still, the snapshot is noted
//     to be of this call, too
//  2. else a snapshot is taken of the workspace, called before-ID. The guest is
//     frozen only where it changes files meanwhile
//  3. the oldest snapshots for undo go when there are more than are to be kept
//
// and how it is undone:
//
//  4. the guest is frozen, and a snapshot taken of what there is
//  5. each file of the workspace that is not what it was is replaced
//  6. the guest goes on
//
// If hutchd is killed in 5, the next one tells that the workspace is between
// two states. Either snapshot is there, and can be gone to.

// What begins the names of snapshots for undo, and the IDs of what they are
// before, but for MCP calls, whose IDs are their numbers.
const (
	undoPrefix = "before-"
	undoneID   = "undo-" // something was undone
	execID     = "exec-" // a command of exec/ was started
)

// ExecID is the ID, for Before and Undo, of a command of exec/.
func ExecID(name string) string { return execID + name }

// undoMost is how many files and folders the snapshots for undo have together,
// but for the last. Each takes room on the disk, and time to remove.
const undoMost = 1 << 20

// whatMost is how much is kept of what was about to be done.
const whatMost = 200

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
	p := snapshot.Point{ID: id, Time: time.Now(), What: what[:min(len(what), whatMost)]}
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
	if of, err := v.snaps.Points(last.Name); err != nil || len(of) >= snapshot.PointsMost {
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

// take takes a snapshot for undo, of p, whose files copy sees to, and returns
// its name.
func (v *VM) take(ctx context.Context, p snapshot.Point, copy func(*snapshot.Draft, *snapshot.Info) error) (string, error) {
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
		err = copy(d, &i)
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
	return cmp.Or(err, d.Commit(*i))
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
		full := files > undoMost || c.Disk > 0 && bytes > 2*c.Disk
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

// Points returns what can be undone, the oldest first.
func (v *VM) Points() ([]snapshot.Point, error) {
	list, err := v.undoable()
	var all []snapshot.Point
	for _, i := range list {
		of, _ := v.snaps.Points(i.Name) // none of one that has just gone
		all = append(all, of...)
	}
	return all, err
}

// point returns the last one with the ID, or of the snapshot that is called so.
func (v *VM) point(id string) (snapshot.Point, error) {
	all, err := v.Points()
	if err != nil {
		return snapshot.Point{}, err
	}
	for _, p := range slices.Backward(all) {
		if p.ID == id || p.Snapshot == id {
			return p, nil
		}
	}
	return snapshot.Point{}, fmt.Errorf("%w: nothing to undo has the ID %.64q: read undo for what has", fs.ErrNotExist, id)
}

// Undo makes the workspace what it was before what id names was done: an MCP
// call by its number, a command by exec-NAME, what was undone by undo-N, or a
// snapshot for undo by its name. It undoes what was done since as well. The VM
// may run, but not be suspended: its memory would not fit its files.
func (v *VM) Undo(ctx context.Context, id string) error {
	ctx, done, err := v.errandAlone(ctx, v.undoing)
	if err != nil {
		return err
	}
	defer done()
	to, err := v.point(id)
	if err != nil {
		return err
	}
	_, release, err := v.snaps.Hold(to.Snapshot)
	if err != nil {
		return err
	}
	defer release()
	if err := v.notSuspended(); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(v.dir, ".new-")
	if err != nil {
		return err
	}
	u := &undo{v: v, to: to, as: v.nextUndo(), aside: aside}
	_, err = v.take(ctx, snapshot.Point{ID: u.as, Time: time.Now(), What: "undo " + to.ID}, func(d *snapshot.Draft, i *snapshot.Info) error {
		return v.turn(ctx, func() error { return u.do(ctx, d, i) })
	})
	if u.done {
		v.event(EventUndone, u.text())
	}
	return errors.Join(cmp.Or(err, u.failed), removeAll(aside))
}

// nextUndo returns the ID for what is about to be undone.
func (v *VM) nextUndo() string {
	last := 0
	all, _ := v.Points()
	for _, p := range all {
		if n, ok := strings.CutPrefix(p.ID, undoneID); ok {
			i, _ := strconv.Atoi(n)
			last = max(last, i)
		}
	}
	return undoneID + strconv.Itoa(last+1)
}

// An undo is one under way.
type undo struct {
	v       *VM
	to      snapshot.Point
	as      string // the ID of the point before it
	aside   string // a folder for what is in the way
	changes replica.Changes
	done    bool
	failed  error // why it was not, after the snapshot
}

// do does steps 4 to 6. It is done by the owner.
func (u *undo) do(ctx context.Context, d *snapshot.Draft, i *snapshot.Info) error {
	v := u.v
	if err := v.notSuspended(); err != nil {
		return err
	}
	i.Taken, i.State = time.Now(), string(v.State())
	v.syncKernel(ctx)
	_, err := v.still(ctx, func(ctx context.Context) error {
		if err := cmp.Or(d.Copy(ctx), d.Commit(*i)); err != nil {
			return err
		}
		u.failed = u.back(ctx)
		u.done = u.failed == nil
		return nil
	})
	return err
}

// back does step 5.
func (u *undo) back(ctx context.Context) error {
	note := u.v.path(undoingName)
	if err := fs.WriteFile(note, []byte(u.to.ID+" "+u.as+"\n"), false); err != nil {
		return err
	}
	var err error
	u.changes, err = replica.Back(ctx, u.v.WorkDir(), u.v.workOf(u.to.Snapshot), u.aside)
	if err != nil {
		err = fmt.Errorf("undo %s is not whole, %s again, or undo %s: %w", u.to.ID, u.to.ID, u.as, err)
	}
	return errors.Join(err, os.Remove(note))
}

// undoingName is a file that is there while step 5 is under way: what is
// undone, and what undoes that.
const undoingName = "undoing"

// foundUndoing is the error of step 5 that was cut short.
func (v *VM) foundUndoing() error {
	text, err := os.ReadFile(v.path(undoingName))
	if err != nil {
		return nil
	}
	os.Remove(v.path(undoingName))
	to, as, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return fmt.Errorf("%w: hutchd was killed while it undid %s: some files of the workspace are as before that, and some are not: undo %s again, or undo %s", fs.ErrInterrupted, to, to, as)
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

// textMost is how much of what came back is told.
const textMost = 1 << 10

// text says what came back, and how that is undone.
func (u *undo) text() string {
	var b strings.Builder
	c := u.changes
	fmt.Fprintf(&b, "%s: %d restored, %d removed; undo %s takes that back", u.to.ID, c.Restored, c.Removed, u.as)
	told := 0
	for _, p := range c.Paths {
		line := fmt.Sprintf(", %s %s", p.Verb, fs.Quote(fs.PlainLine(p.Path)))
		if b.Len()+len(line) > textMost {
			break
		}
		b.WriteString(line)
		told++
	}
	if n := c.Restored + c.Removed - told; n > 0 {
		fmt.Fprintf(&b, ", and %d more", n)
	}
	return b.String()
}
