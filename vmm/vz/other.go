//go:build !(darwin && cgo)

package vz

import (
	"context"
	"fmt"
	"runtime"

	"hutch/fs"
	"hutch/vmm"
)

// errNotHere says why there is no framework.
func errNotHere() error {
	if runtime.GOOS == "darwin" {
		return fmt.Errorf("%w: hutchd was built without cgo", fs.ErrUnsupported)
	}
	return fmt.Errorf("%w: not macOS", fs.ErrUnsupported)
}

// Probe says that there is no Virtualization framework here.
func (d *Driver) Probe(context.Context) (string, error) { return "", errNotHere() }

// Start says that there is no Virtualization framework here.
func (d *Driver) Start(context.Context, vmm.Spec) (vmm.Machine, error) { return nil, errNotHere() }

// Adopt says that there is no Virtualization framework here.
func (d *Driver) Adopt(context.Context, vmm.Spec, []byte) (vmm.Machine, error) {
	return nil, errNotHere()
}

// Restore says that there is no Virtualization framework here.
func (d *Driver) Restore(context.Context, vmm.Spec, string) (vmm.Machine, error) {
	return nil, errNotHere()
}
