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
// two states. Either can be gone to, unless the host went down as well: no
// snapshot for undo is forced to the disk.

// What begins the names of snapshots for undo, and the IDs of what they are
// before, but for MCP calls, whose IDs are their numbers.
const (
	undoPrefix = "before-"
	undoneID   = "undo-" // something was undone
	execID     = "exec-" // a command of exec/ was started
)

// ExecID is the ID, for Before and Undo, of a command of exec/.
func ExecID(name string) string { return execID + name }

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
		if err := d.Copy(ctx); err != nil {
			return err
		}
		if err := d.Commit(*i); err != nil {
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
	u.changes, err = replica.Restore(ctx, u.v.WorkDir(), u.v.workOf(u.to.Snapshot), u.aside)
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
	advice := fmt.Sprintf("undo %s again, or undo %s", to, as)
	if _, err := v.point(as); err != nil {
		advice = "what either state is to be made of went down with the host"
	}
	return fmt.Errorf("%w: hutchd was killed while it undid %s: some files of the workspace are as before that, and some are not: %s", fs.ErrInterrupted, to, advice)
}

// maxText is how much of what came back is told.
const maxText = 1 << 10

// text says what came back, and how that is undone.
func (u *undo) text() string {
	var b strings.Builder
	c := u.changes
	fmt.Fprintf(&b, "%s: %d restored, %d removed; undo %s takes that back", u.to.ID, c.Restored, c.Removed, u.as)
	told := 0
	for _, p := range c.Paths {
		line := fmt.Sprintf(", %s %s", p.Verb, fs.Quote(fs.PlainLine(p.Path)))
		if b.Len()+len(line) > maxText {
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
