//go:build cgo

package vz

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/Code-Hex/vz/v3"

	"hutch/fs"
	"hutch/relay/guest"
	"hutch/relay/port"
	"hutch/vmm"
	"hutch/vmm/qemu/share"
)

// Probe makes a configuration that boots nothing, which the framework refuses
// where there is none or the program is not signed for it.
func (d *Driver) Probe(context.Context) (string, error) {
	if err := guest.CheckProgram("guest", d.cfg.Guest); err != nil {
		return "", err
	}
	k, err := d.findKernel("")
	if err != nil {
		return "", err
	}
	loader, err := vz.NewLinuxBootLoader(k.Image)
	if err != nil {
		return "", unusable(err)
	}
	c, err := vz.NewVirtualMachineConfiguration(loader, 1, minRAM)
	if err == nil {
		_, err = c.Validate()
	}
	if err != nil {
		return "", unusable(err)
	}
	return "Virtualization framework, kernel " + k.Release + ", suspend " + saving, nil
}

// unusable is the error of a framework that can do nothing here.
func unusable(err error) error {
	return fmt.Errorf("%w: Virtualization framework: %w", fs.ErrUnsupported, err)
}

const (
	minRAM     = 128 << 20
	defaultRAM = 1 << 30
)

// Start boots a machine.
func (d *Driver) Start(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	sh, err := d.lay(ctx, s)
	if err != nil {
		return nil, err
	}
	return d.begin(ctx, s, sh, func(v *vz.VirtualMachine) error { return v.Start() })
}

// Adopt says that the machine went with the process that had it.
func (d *Driver) Adopt(_ context.Context, s vmm.Spec, _ []byte) (vmm.Machine, error) {
	os.RemoveAll(s.Dir)
	return nil, errors.New("machine ended with the hutchd that had it")
}

// begin makes a machine of the shape sh, and has it begin as how says.
func (d *Driver) begin(ctx context.Context, s vmm.Spec, sh shape, how func(*vz.VirtualMachine) error) (vmm.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	served, err := share.New(s)
	if err != nil {
		return nil, err
	}
	m, err := d.make(s, sh, served)
	if err != nil {
		served.Close()
		return nil, fmt.Errorf("%w: vz: %w", fs.ErrIO, err)
	}
	if err := m.listen(); err != nil {
		m.letGo()
		return nil, err
	}
	if err := how(m.vm); err != nil {
		if m.vm.CanStop() {
			m.vm.Stop()
		}
		m.letGo()
		return nil, fmt.Errorf("%w: vz: %w", fs.ErrIO, err)
	}
	go m.watch()
	return m, nil
}

// make makes the machine, which does not run.
func (d *Driver) make(s vmm.Spec, sh shape, served *share.Share) (*machine, error) {
	initrd := filepath.Join(s.Dir, initrdFile)
	if err := d.configure(s, sh, served, initrd); err != nil {
		return nil, err
	}
	loader, err := vz.NewLinuxBootLoader(sh.Kernel, vz.WithInitrd(initrd), vz.WithCommandLine(commandLine))
	if err != nil {
		return nil, err
	}
	c, err := vz.NewVirtualMachineConfiguration(loader, uint(sh.CPUs), uint64(sh.RAM))
	if err != nil {
		return nil, err
	}
	if err := addDevices(c, s, sh); err != nil {
		return nil, err
	}
	if _, err := c.Validate(); err != nil {
		return nil, err
	}
	v, err := vz.NewVirtualMachine(c)
	if err != nil {
		return nil, err
	}
	return newMachine(s, sh, v, served), nil
}

// commandLine is the kernel's. The console is the first virtio one. Each
// machine has port numbers of its own.
var commandLine = fmt.Sprintf("console=hvc0 panic=-1 quiet %s%d", port.Word, port.Agent)
