package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hutch/fs"
	"hutch/vmm/image/layer"
	"hutch/vmm/replica"
)

// How a VM is forked:
//
//  1. what is in its folders is copied into a folder without a name, while
//     the guest runs
//  2. the VM's owner pauses the guest, has copied what changed since, and for
//     a live fork has the machine saved; then the guest goes on
//  3. the folder gets its name, and the copy is in the table
//  4. for a live fork a machine is restored, as for a VM that is resumed
//
// What fails leaves nothing of the copy, and neither does what is interrupted before
// 4, which goes on. If hutchd is killed before 3, nothing is left either; after it the
// next one finds a stopped copy, or a live one that runs, or removes it.

// forkedParts are the folders of a VM that a fork has copies of.
var forkedParts = []string{"env", "work", "layer", pinsFolder}

// A fork is a copy of a VM in the making.
type fork struct {
	name  string
	dir   string
	live  bool
	parts replica.Set

	config Config
	text   string // of the config

	unconfirmed []string
}

// Fork makes a stopped copy of the VM called name, which stays until it is
// removed: with its config, variables, workspace, layer and pins.
func (v *VM) Fork(ctx context.Context, name string) error {
	_, err := v.fork(ctx, &fork{name: name})
	return err
}

// ForkLive makes a copy of the VM that runs, with the memory of this one,
// and returns when its guest has connected.
func (v *VM) ForkLive(ctx context.Context, name string) error {
	w, err := v.fork(ctx, &fork{name: name, live: true})
	if err != nil {
		return err
	}
	return w.do(ctx, func() error { return w.beginForked(v.Name()) })
}

func (v *VM) fork(ctx context.Context, f *fork) (*VM, error) {
	if err := fs.CheckWord("VM", f.name); err != nil {
		return nil, err
	}
	if _, err := v.t.Lookup(f.name); err == nil {
		return nil, fmt.Errorf("%w: vm %q", fs.ErrExist, f.name)
	}
	ctx, done, err := v.errand(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if f.dir, err = os.MkdirTemp(v.t.dir(), ".gone-"); err != nil {
		return nil, err
	}
	defer removeAll(f.dir)
	if err := makeFolders(v.dir); err != nil { // an earlier version made fewer
		return nil, err
	}
	f.parts = replica.NewSet(v.dir, f.dir, forkedParts...)
	if v.State().alive() {
		err = f.parts.Ahead(ctx)
	}
	if err == nil {
		err = v.turn(ctx, func() error { return v.copyInto(ctx, f) })
	}
	if err != nil {
		return nil, err
	}
	w, err := v.t.commit(f, v.Name())
	if err == nil {
		text := f.name
		if f.live {
			text += runsOn
		}
		v.event(EventForked, text)
	}
	return w, err
}

// copyInto does step 2. It is done by the owner.
func (v *VM) copyInto(ctx context.Context, f *fork) error {
	if f.live && v.machine == nil {
		if err := v.notSuspended(); err != nil {
			return err
		}
		return v.notRunning()
	}
	now := v.look()
	f.unconfirmed = now.Unconfirmed
	if f.config, f.text = now.config, now.text; f.text != "" {
		if err := os.WriteFile(filepath.Join(f.dir, "config"), []byte(f.text), 0o600); err != nil {
			return err
		}
	}
	_, err := v.frozen(ctx, func(ctx context.Context) error {
		var copied, saved error
		var both sync.WaitGroup
		both.Go(func() { _, copied = f.parts.Copy(ctx) })
		if f.live {
			saved = errors.Join(v.saveInto(ctx, filepath.Join(f.dir, restoringName)), v.lendVariables(f.dir))
		}
		both.Wait()
		return errors.Join(copied, saved)
	})
	return err
}

// commit does step 3.
func (t *Table) commit(f *fork, of string) (*VM, error) {
	now := time.Now()
	s := stored{Name: f.name, State: Stopped, Reason: "fork of " + of, Since: now, Made: now, Unconfirmed: f.unconfirmed}
	if f.live {
		s.State, s.Reason, s.Unfinished = Starting, "", true
	}
	if err := errors.Join(makeFolders(f.dir), s.save(f.dir, false)); err != nil {
		return nil, err
	}
	if !f.live {
		if err := layer.Settle(f.dir); err != nil {
			return nil, err
		}
	}
	w := newVM(t, f.name, t.folder(f.name), s)
	w.seen.config, w.seen.text = f.config, f.text
	return t.install(w, f.dir, "fork of "+of)
}

// runsOn follows the name of the other VM in what is told of a live fork: an agent that ran
// runs twice.
const runsOn = ": what ran runs on in both"

// beginForked does step 4.
func (v *VM) beginForked(of string) error {
	ctx, done := v.killable(v.t.cfg.StartLimit)
	defer done()
	p, err := v.planSaved(restoringName)
	if err == nil {
		err = v.beginSidecar(ctx)
	}
	if err == nil {
		err = v.restore(ctx, p, EventRunning)
	}
	if err == nil {
		v.rename(ctx, p)
		v.change(func(s *seen) { s.Reason = "fork of " + of + runsOn })
	}
	if err == nil || v.State() == Running {
		return err
	}
	err = fmt.Errorf("no fork %q: %w", v.Name(), err)
	return errors.Join(err, v.removeFork())
}

// rename gives a copy with a kernel of its own its host name: that kernel has
// the name of the VM which it was copied from. One of an earlier version keeps it.
func (v *VM) rename(ctx context.Context, p plan) {
	if _, ok := p.driver.(KernelBooter); ok {
		v.look().guest.SetHostname(ctx, p.spec.Hostname)
	}
}

// removeFork removes a live fork that did not come to run.
func (v *VM) removeFork() error {
	if err := v.killMachine(); err != nil {
		return err
	}
	v.teardown(Failed, "")
	v.note(Failed, "")
	return v.remove()
}
