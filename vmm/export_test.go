package vmm

import "context"

// Snapping and Comparing keep the VM from taking snapshots, and from comparing
// folders, until done is called.
func (v *VM) Snapping(ctx context.Context) (done func(), err error) {
	_, done, err = v.errandAlone(ctx, v.snapping)
	return done, err
}

func (v *VM) Comparing(ctx context.Context) (done func(), err error) {
	_, done, err = v.errandAlone(ctx, v.comparing)
	return done, err
}

// Pacing has a guest's turn last until done is called.
func (v *VM) Pacing(ctx context.Context) (done func(), err error) {
	t := &turn{place: v.t.pace}
	return t.end, t.rest(ctx)
}
