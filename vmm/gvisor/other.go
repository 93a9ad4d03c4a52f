//go:build !linux

package gvisor

import (
	"context"
	"fmt"

	"hutch/fs"
	"hutch/vmm"
)

var errNotLinux = fmt.Errorf("%w: not Linux", fs.ErrUnsupported)

// Probe says that there is no gVisor here.
func (d *Driver) Probe(context.Context) (string, error) { return "", errNotLinux }

// Start says that there is no gVisor here.
func (d *Driver) Start(context.Context, vmm.Spec) (vmm.Machine, error) { return nil, errNotLinux }

// Adopt says that there is no gVisor here.
func (d *Driver) Adopt(context.Context, vmm.Spec, []byte) (vmm.Machine, error) {
	return nil, errNotLinux
}

// Restore says that there is no gVisor here.
func (d *Driver) Restore(context.Context, vmm.Spec, string) (vmm.Machine, error) {
	return nil, errNotLinux
}
