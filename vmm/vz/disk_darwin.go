//go:build cgo

package vz

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/Code-Hex/vz/v3"

	"hutch/relay/boot"
	"hutch/vmm"
	"hutch/vmm/image"
	"hutch/vmm/qemu/initrd"
	"hutch/vmm/qemu/kernel"
	"hutch/vmm/qemu/share"
)

// A shape is what of a machine must be the same where it goes on.
type shape struct {
	Kernel string `json:"kernel"`
	Initrd string `json:"initrd"` // without the VM's own part
	Image  string `json:"image"`  // the disk
	RAM    int64  `json:"ram"`
	CPUs   int    `json:"cpus"`
	// Its guest dials what is root's from reserved ports, as one that began with
	// an earlier hutchd does not.
	Reserved bool `json:"reserved,omitempty"`
}

const initrdFile = "initrd"

// What the guest knows its disks by.
const (
	imageSerial = "image"
	layerSerial = "layer"
)

// layerSize is how much a VM may write outside its workspace, in bytes. On
// the host it takes what was written.
const layerSize = 16 << 30

func (d *Driver) findKernel(path string) (kernel.Kernel, error) {
	return kernel.Find(path, d.cfg.Kernels...)
}

// lay makes what machines of s start from.
func (d *Driver) lay(ctx context.Context, s vmm.Spec) (shape, error) {
	sh := shape{RAM: cmp.Or(s.RAM, defaultRAM), CPUs: cmp.Or(s.CPUs, runtime.NumCPU()), Reserved: true}
	k, err := d.findKernel(s.Kernel)
	if err != nil {
		return sh, err
	}
	sh.Kernel = k.Image
	if err := os.MkdirAll(d.cfg.Dir, 0o755); err != nil {
		return sh, err
	}
	if sh.Initrd, err = initrd.Make(d.path("initrd"), k, d.cfg.Guest); err != nil {
		return sh, err
	}
	if sh.Image, err = s.Image.Disk(ctx); err != nil {
		return sh, err
	}
	return sh, layer(ctx, layerDisk(s))
}

func layerDisk(s vmm.Spec) string { return filepath.Join(s.Layer, "disk.raw") }

// layer makes the disk path for what a VM writes, unless it is there.
func layer(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	tmp := path + ".new"
	defer os.Remove(tmp)
	if err := image.EmptyDisk(ctx, tmp, layerSize); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// configure writes the initramfs of s, with what its init is told.
func (d *Driver) configure(s vmm.Spec, sh shape, served *share.Share, out string) error {
	return initrd.WithConfig(sh.Initrd, out, boot.Config{
		Hostname: s.Hostname, Env: s.Env, Image: imageSerial, Layer: layerSerial, Shares: served.List(), PIDs: s.PIDs,
	})
}

// addDevices gives a machine its disks, its console, its sockets and a source of
// random numbers; and nothing else.
func addDevices(c *vz.VirtualMachineConfiguration, s vmm.Spec, sh shape) error {
	img, err := disk(sh.Image, imageSerial, true)
	if err != nil {
		return err
	}
	layer, err := disk(layerDisk(s), layerSerial, false)
	if err != nil {
		return err
	}
	c.SetStorageDevicesVirtualMachineConfiguration([]vz.StorageDeviceConfiguration{img, layer})
	serial, err := vz.NewFileSerialPortAttachment(s.Serial, true)
	if err != nil {
		return err
	}
	console, err := vz.NewVirtioConsoleDeviceSerialPortConfiguration(serial)
	if err != nil {
		return err
	}
	c.SetSerialPortsVirtualMachineConfiguration([]*vz.VirtioConsoleDeviceSerialPortConfiguration{console})
	sockets, err1 := vz.NewVirtioSocketDeviceConfiguration()
	entropy, err2 := vz.NewVirtioEntropyDeviceConfiguration()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	c.SetSocketDevicesVirtualMachineConfiguration([]vz.SocketDeviceConfiguration{sockets})
	c.SetEntropyDevicesVirtualMachineConfiguration([]*vz.VirtioEntropyDeviceConfiguration{entropy})
	return nil
}

func disk(path, serial string, readOnly bool) (*vz.VirtioBlockDeviceConfiguration, error) {
	file, err := vz.NewDiskImageStorageDeviceAttachment(path, readOnly)
	if err != nil {
		return nil, err
	}
	b, err := vz.NewVirtioBlockDeviceConfiguration(file)
	if err != nil {
		return nil, err
	}
	return b, b.SetBlockDeviceIdentifier(serial)
}

func (d *Driver) path(name string) string { return filepath.Join(d.cfg.Dir, name) }
