package vmm

import (
	"errors"
	"time"

	"hutch/fs"
	"hutch/vmm/snapshot"
)

// Automatic snapshots are the owner's: it has a timer while the VM runs. When the
// timer fires, a snapshot is taken beside the owner, and the timer is set again.

// arm sets the timer for the next automatic snapshot.
func (v *VM) arm() {
	v.due = nil
	r := v.Config().Snap
	if r.Every == 0 || v.machine == nil {
		return
	}
	last := v.look().Since
	if list, err := v.automatic(); err == nil && len(list) > 0 && list[len(list)-1].Taken.After(last) {
		last = list[len(list)-1].Taken
	}
	v.due = time.After(max(0, min(r.Every, time.Until(last.Add(r.Every)))))
}

// turnRing takes an automatic snapshot and drops those that are too many.
func (v *VM) turnRing() {
	v.due = nil
	keep := v.Config().Snap.Keep
	v.t.background(func() {
		err := v.snap(v.t.life, "auto-"+time.Now().UTC().Format("20060102-150405"), true)
		if !errors.Is(err, fs.ErrExist) && v.life.Err() == nil {
			v.fail(err)
		}
		if err == nil {
			v.fail(v.thin(keep))
		}
		v.do(v.t.life, func() error { v.arm(); return nil })
	})
}

// automatic returns the snapshots of the ring, the oldest first.
func (v *VM) automatic() ([]snapshot.Info, error) {
	all, err := v.snaps.List()
	var list []snapshot.Info
	for _, i := range all {
		if i.Automatic && !i.Undo {
			list = append(list, i)
		}
	}
	return list, err
}

// thin drops the oldest snapshots of the ring until there are keep of it. One
// that is being read is left for the next time.
func (v *VM) thin(keep int) error {
	list, err := v.automatic()
	for i := range max(0, len(list)-keep) {
		if derr := v.DropSnapshot(v.t.life, list[i].Name); !errors.Is(derr, fs.ErrBusy) {
			err = errors.Join(err, derr)
		}
	}
	return err
}
