package vmm

import (
	"context"
	"fmt"

	"hutch/fs"
)

// Persist gives an anonymous VM a name, under which it stays until it is
// removed. Its folder keeps the name that it has: a machine may run in it.
func (v *VM) Persist(ctx context.Context, name string) error {
	if err := fs.CheckWord("VM", name); err != nil {
		return err
	}
	return v.do(ctx, func() error {
		if !v.Anonymous() {
			return fmt.Errorf("%w: vm %q persists already", fs.ErrInvalid, v.Name())
		}
		return v.t.rename(v, name)
	})
}

// rename gives v a name for good, on the disk before anyone sees it.
func (t *Table) rename(v *VM, name string) error {
	old := v.Name()
	if err := t.add(v, name); err != nil {
		return err
	}
	now := v.look().stored
	now.Name, now.Anonymous = name, false
	if err := now.save(v.dir, true); err != nil {
		t.drop(name)
		return err
	}
	v.change(func(s *seen) { s.Name, s.Anonymous = name, false })
	t.drop(old)
	v.event(EventPersisted, old)
	return nil
}

// Discard ends and removes the VM if it is anonymous, whatever it does.
func (v *VM) Discard(ctx context.Context) error {
	if v.Anonymous() {
		defer v.interrupt()()
	}
	return v.do(ctx, func() error {
		if !v.Anonymous() {
			return nil
		}
		return v.destroy()
	})
}
