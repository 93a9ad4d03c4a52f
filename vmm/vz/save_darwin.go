//go:build cgo && !arm64

package vz

import (
	"context"
	"fmt"

	"hutch/fs"
	"hutch/vmm"
)

// saving says whether machines can be saved here, for the driver's line.
const saving = "not on this processor"

var errNoSaving = fmt.Errorf("%w: the Virtualization framework saves machines on Apple silicon only", fs.ErrUnsupported)

// Save says that machines cannot be saved here.
func (m *machine) Save(context.Context, string) error { return errNoSaving }

// Restore says that machines cannot be saved here.
func (d *Driver) Restore(context.Context, vmm.Spec, string) (vmm.Machine, error) {
	return nil, errNoSaving
}
