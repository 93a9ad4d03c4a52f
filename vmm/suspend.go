package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/profiles"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// How a VM is suspended and resumed:
//
//  1. the machine is paused, and saved into a folder without a name
//  2. the folder is on the disk and is renamed to saved, which decides that
//     the VM is suspended
//  3. the machine is killed
//  4. saved is renamed to restoring: from now on it may be out of date
//  5. a machine is restored from it, and its guest connects
//  6. restoring is removed
//
// So where there is a saved, the machine it is of has not run since; and a VM
// never has two machines. If hutchd is killed, the next one does 3 where it
// finds saved. Where it finds restoring it does 6 if the machine runs, and
// else takes the VM for suspended again.
const (
	savedName     = "saved"
	restoringName = "restoring"
)

// saveLimit is how long a machine may take to be saved.
const saveLimit = 10 * time.Minute

// What is in such a folder.
const (
	savedMachine = "machine" // the driver's
	savedConfig  = "config"  // what the machine was started with
)

// Suspend ends the VM's machine and keeps its memory on the disk, for Resume.
func (v *VM) Suspend(ctx context.Context) error {
	return v.do(ctx, func() error {
		switch v.State() {
		case Running:
			return v.suspend()
		case Suspended:
			return fmt.Errorf("%w: vm %q is suspended already", fs.ErrBusy, v.Name())
		}
		return v.notRunning()
	})
}

// Resume makes a suspended VM go on where it was, and returns when its guest
// has connected.
func (v *VM) Resume(ctx context.Context) error {
	return v.do(ctx, func() error {
		switch s := v.State(); {
		case s == Suspended:
			return v.resume()
		case s.alive():
			return fmt.Errorf("%w: vm %q is running already", fs.ErrBusy, v.Name())
		}
		return fmt.Errorf("%w: vm %q is not suspended: start it", fs.ErrBusy, v.Name())
	})
}

// notSuspended is an error if the VM is suspended, which is not stopped.
func (v *VM) notSuspended() error {
	if v.State() == Suspended {
		return fmt.Errorf("%w: %s", fs.ErrBusy, v.suspendedText())
	}
	return nil
}

func (v *VM) suspendedText() string {
	return fmt.Sprintf("vm %q is suspended: resume it, or stop it and lose its memory", v.Name())
}

// suspend does steps 1 to 3. What fails before 2 leaves the VM running.
func (v *VM) suspend() error {
	ctx, done := v.killable(saveLimit)
	defer done()
	err := v.machine.Pause(ctx)
	if err == nil {
		err = v.save(ctx)
	}
	if err != nil {
		return v.resumeUnsaved(fmt.Errorf("vm %q is not suspended: %w", v.Name(), err))
	}
	v.keepSaved()
	return nil
}

// save does what is left of steps 1 and 2.
func (v *VM) save(ctx context.Context) error {
	dir, err := os.MkdirTemp(v.dir, ".new-")
	if err != nil {
		return err
	}
	err = v.saveInto(ctx, dir)
	if err == nil {
		err = layer.Settle(dir)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = os.Rename(dir, v.path(savedName))
	}
	if err != nil {
		removeAll(dir)
	}
	return err
}

// saveInto writes what is to be in saved.
func (v *VM) saveInto(ctx context.Context, dir string) error {
	machine := filepath.Join(dir, savedMachine)
	if err := os.MkdirAll(machine, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, savedConfig), []byte(v.Config().Text()), 0o600); err != nil {
		return err
	}
	return v.machine.Save(ctx, machine)
}

// resumeUnsaved has the machine go on that could not be suspended for the reason err.
func (v *VM) resumeUnsaved(err error) error {
	ctx, done := v.killable(saveLimit)
	defer done()
	if rerr := v.machine.Resume(ctx); rerr != nil {
		select {
		case <-v.machine.Done(): // which the owner sees next
		default:
			err = fmt.Errorf("%w; and it is frozen: %w", err, rerr)
		}
	}
	return err
}

// keepSaved does step 3, for a VM with what step 2 left.
func (v *VM) keepSaved() {
	v.leaveGuest()
	v.change(func(s *seen) { s.Ran = time.Since(s.Began) })
	v.note(Suspended, "")
	if err := v.endMachine(); err != nil {
		v.fail(fmt.Errorf("vm %q is suspended, but its machine does not end: %w", v.Name(), err))
	}
	removeAll(v.path(restoringName))
	size := treeSize(v.path(savedName))
	v.change(func(s *seen) { s.Saved = size })
	v.finish(Suspended, "", EventSuspended)
}

// leaveGuest tells those who have files of the guest open that it is suspended.
func (v *VM) leaveGuest() {
	if g := v.look().guest; g != nil {
		g.Leave(fmt.Errorf("%w: %s", fs.ErrBusy, v.suspendedText()))
	}
}

// resume does steps 4 to 6. The machine is the one that was saved, whatever
// the profile says now.
func (v *VM) resume() error {
	if err := v.confirmed(); err != nil {
		return err
	}
	ctx, done := v.killable(v.t.cfg.StartLimit)
	defer done()
	if err := v.finishUnpack(); err != nil {
		return err
	}
	p, err := v.planSaved(savedName)
	if err != nil {
		return err
	}
	if err := v.beginSidecar(ctx); err != nil {
		v.endSidecar()
		return err
	}
	if err := os.Rename(v.path(savedName), v.path(restoringName)); err != nil {
		return v.resumeFailed(ctx, err)
	}
	unpacked := v.look().Began.IsZero() // and never ran here
	v.note(Starting, "")
	if err := v.restore(ctx, p, EventResumed); err != nil {
		return v.resumeFailed(ctx, err)
	}
	if unpacked {
		v.rename(ctx, p)
	}
	return nil
}

// planSaved looks up what is needed for what is saved in a folder of the VM.
func (v *VM) planSaved(name string) (plan, error) {
	text, err := os.ReadFile(filepath.Join(v.path(name), savedConfig))
	if err != nil {
		return plan{}, err
	}
	c, err := profiles.ParseConfig(string(text))
	if err != nil {
		return plan{}, err
	}
	p, err := v.plan(c)
	if err != nil {
		return p, err
	}
	return p, v.makeRoom(p)
}

// restore does steps 5 and 6. A guest that is slow to connect is an error,
// but runs.
func (v *VM) restore(ctx context.Context, p plan, kind Kind) error {
	g := v.look().guest
	if g == nil {
		g = v.newGuest(p.driver)
	}
	g.Return()
	err := v.boot(ctx, p, func(ctx context.Context, s Spec) (Machine, error) {
		return p.driver.Restore(ctx, s, filepath.Join(v.path(restoringName), savedMachine))
	}, g)
	late := v.machine != nil && errors.Is(err, fs.ErrTimedOut)
	if err != nil && !late {
		return err
	}
	v.change(func(s *seen) {
		s.Saved, s.Unfinished = 0, false
		s.Began, s.Used = time.Now().Add(-s.Ran), time.Now()
	})
	v.enter(Running, "", kind)
	v.arm()
	v.watch()
	if late {
		v.awaitRestored()
		return fmt.Errorf("%w, but the VM runs", err)
	}
	return removeAll(v.path(restoringName))
}

// awaitRestored does step 6 when the guest connects at last.
func (v *VM) awaitRestored() {
	g := v.look().guest
	v.t.background(func() {
		if g.Ready(v.t.life) == nil {
			v.setClock()
			v.do(v.t.life, func() error { return removeAll(v.path(restoringName)) })
		}
	})
}

// resumeFailed makes a VM suspended again that could not be resumed.
func (v *VM) resumeFailed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errKilled) {
		err = fmt.Errorf("%w: vm %q was killed while it was resumed", fs.ErrInterrupted, v.Name())
	} else {
		err = fmt.Errorf("vm %q stays suspended: %w", v.Name(), err)
	}
	if kerr := v.endMachine(); kerr != nil {
		return errors.Join(err, kerr)
	}
	v.suspendAgain(fs.Text(err))
	return err
}

// suspendAgain makes saved again what a restored machine that is no more was
// restored from.
func (v *VM) suspendAgain(reason string) {
	if err := os.Rename(v.path(restoringName), v.path(savedName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		v.fail(err)
	}
	v.finish(Suspended, reason, EventSuspended)
}

// stopSuspended makes a suspended VM a stopped one, without its memory. An anonymous
// VM goes.
func (v *VM) stopSuspended() error {
	if err := v.dropMemory(); err != nil || !v.Anonymous() {
		return err
	}
	return v.remove()
}

func (v *VM) dropMemory() error {
	trash, err := replica.Trash(v.dir, v.path(savedName))
	if err != nil {
		return err
	}
	v.change(func(s *seen) { s.Saved, s.ending = 0, Ending{Why: "its memory was given up"} })
	v.closeGuest()
	v.enter(Stopped, "its memory was given up", EventStopped)
	return removeAll(trash)
}

// has says whether the VM's folder has something called name.
func (v *VM) has(name string) bool {
	_, err := os.Lstat(v.path(name))
	return err == nil
}

// treeSize returns the size of the files below dir, but for those that have
// other names too, as what all machines share.
func treeSize(dir string) int64 {
	var sum int64
	filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil && fi.Sys().(*syscall.Stat_t).Nlink == 1 {
				sum += fi.Size()
			}
		}
		return nil
	})
	return sum
}
