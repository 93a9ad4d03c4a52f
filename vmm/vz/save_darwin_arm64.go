//go:build cgo

package vz

import (
	"context"
	"os"
	"path/filepath"

	"github.com/Code-Hex/vz/v3"

	"hutch/fs"
	"hutch/vmm"
)

// saving says whether machines can be saved here, for the driver's line.
const saving = "from macOS 14 on"

// What Save writes into its folder.
const (
	savedShape  = "machine.json"
	savedMemory = "memory"
	savedInitrd = "initrd" // the machine's own: the framework compares what it starts from
)

// Save writes the memory and the devices, and what the machine was made from.
func (m *machine) Save(ctx context.Context, dir string) error {
	if err := fs.WriteJSON(filepath.Join(dir, savedShape), m.shape, false); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(m.spec.Dir, initrdFile), filepath.Join(dir, savedInitrd)); err != nil {
		return err
	}
	return m.order(ctx, false, func() error { return m.vm.SaveMachineStateToPath(filepath.Join(dir, savedMemory)) })
}

// Restore starts a machine that goes on where the saved one was.
func (d *Driver) Restore(ctx context.Context, s vmm.Spec, dir string) (vmm.Machine, error) {
	var sh shape
	if err := fs.ReadJSON(filepath.Join(dir, savedShape), &sh); err != nil {
		return nil, err
	}
	sh.Initrd = filepath.Join(dir, savedInitrd)
	return d.begin(ctx, s, sh, func(v *vz.VirtualMachine) error {
		if err := v.RestoreMachineStateFromURL(filepath.Join(dir, savedMemory)); err != nil {
			return err
		}
		return v.Resume()
	})
}
