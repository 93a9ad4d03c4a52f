//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"hutch/fs"
	"hutch/relay/boot"
	"hutch/vmm"
	"hutch/vmm/cgroup"
	"hutch/vmm/process"
	"hutch/vmm/qemu/initrd"
	"hutch/vmm/qemu/kernel"
	"hutch/vmm/qemu/share"
)

// Start boots a machine.
func (d *Driver) Start(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	accel, err := d.accel(ctx)
	if err != nil {
		return nil, err
	}
	sh := shape{Machine: "pc", Accel: accel, RAM: s.RAM, CPUs: s.CPUs, Reserved: true}
	if sh.RAM == 0 {
		sh.RAM = defaultRAM
	}
	switch {
	case sh.CPUs == 0 && accel == tcg:
		sh.CPUs = 1 // each one more makes the boot slower
	case sh.CPUs == 0:
		sh.CPUs = runtime.NumCPU()
	}
	img, err := s.Image.Disk(ctx)
	if err == nil {
		err = os.Link(img, filepath.Join(s.Dir, imageLink))
	}
	if err != nil {
		return nil, err
	}
	k, err := d.findKernel(s.Kernel)
	if err != nil {
		return nil, err
	}
	if sh.Guest, err = d.guestSum(); err != nil {
		return nil, err
	}
	w, _ := d.plug(k) // else a serial port, for a reason that Probe tells
	return d.begin(ctx, s, sh, w, &k)
}

const defaultRAM = 1 << 30

// begin starts a machine of the shape sh, with the wire w if that is not nil. It
// boots the kernel k or, if that is nil, waits for its memory.
func (d *Driver) begin(ctx context.Context, s vmm.Spec, sh shape, w *wire, k *kernel.Kernel) (m *machine, err error) {
	if w != nil {
		sh.CID, sh.Ports = w.cid, w.first
		defer func() {
			if err != nil {
				w.close()
			}
		}()
	}
	qemu, err := d.usable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(d.cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	served, err := share.New(s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			served.Close()
		}
	}()
	c := &command{}
	defer c.close()
	if err := d.describe(ctx, c, s, sh, w); err != nil {
		return nil, err
	}
	if k == nil {
		c.add("-incoming", "defer")
	} else if err := d.kernel(c, *k, s, sh, served); err != nil {
		return nil, err
	}
	return d.launch(ctx, c, qemu, s, sh, served, w)
}

// launch starts QEMU and takes up its process.
func (d *Driver) launch(ctx context.Context, c *command, qemu string, s vmm.Spec, sh shape, served *share.Share, w *wire) (*machine, error) {
	var from int64
	if fi, err := os.Stat(s.Log); err == nil {
		from = fi.Size()
	}
	p, err := c.start(qemu, s.Dir, s.Log, owner(s.Dir))
	if err != nil {
		return nil, err
	}
	// As another user it could not do so itself.
	if err := cgroup.Put(s.Enter, p.PID()); err != nil {
		p.End()
		return nil, fmt.Errorf("%w: %w", fs.ErrIO, err)
	}
	m, err := attach(ctx, s, p, served, found{PID: p.PID(), Binds: s.Image.Binds, Mounts: s.Mounts, Shape: sh}, w)
	if err != nil {
		p.End()
		return nil, startError(ctx, err, s.Log, from)
	}
	return m, nil
}

// startError says why a machine did not start: what QEMU printed, if it did.
func startError(ctx context.Context, err error, log string, from int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if said := lastLine(log, from); said != "" {
		err = errors.New(strings.TrimPrefix(said, programName+": "))
	}
	return fmt.Errorf("%w: qemu: %w", fs.ErrIO, err)
}

// lastLine returns the last line of what was written to a file since from.
func lastLine(path string, from int64) string {
	data, err := os.ReadFile(path)
	if err != nil || int64(len(data)) < from {
		return ""
	}
	text := strings.TrimSpace(string(data[from:]))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// describe adds to c what the machine of s is made of.
func (d *Driver) describe(ctx context.Context, c *command, s vmm.Spec, sh shape, w *wire) error {
	if err := c.begin(s.Dir, s.Serial, sh); err != nil {
		return err
	}
	if err := d.disks(ctx, c, s); err != nil {
		return err
	}
	c.add("-device", "virtio-rng-pci")
	if err := c.ports(s.Dir, w); err != nil {
		return err
	}
	c.add("-device", "virtio-blk-pci,drive=image,serial="+imageSerial,
		"-device", "virtio-blk-pci,drive=layer,serial="+layerSerial)
	return nil
}

// ports adds what carries the guest's connections.
func (c *command) ports(dir string, w *wire) error {
	if w != nil {
		w.add(c)
		return nil
	}
	c.add("-device", "virtio-serial-pci", "-device", "virtserialport,name=hutch,chardev=port")
	return c.socket(dir, "port")
}

// imageLink is the machine's own name for its disk of the image, which stays
// when the image's is replaced.
const imageLink = "image"

// What the guest knows its disks by.
const (
	imageSerial = "image"
	layerSerial = "layer"
)

// socket has QEMU listen on a socket in dir, which is called name as QEMU's
// device for it is.
func (c *command) socket(dir, name string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	os.Remove(filepath.Join(dir, name))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short(folder, name), Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		return err
	}
	c.add("-chardev", fmt.Sprintf("socket,id=%s,fd=%d,server=on,wait=off", name, c.hand(f)))
	return nil
}

// short names a file by a descriptor of its folder: a socket's path may have
// 107 bytes.
func short(folder *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
}

func (c *command) serial(path string) error {
	there, err := c.file(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	c.add("-chardev", "file,id=serial,append=on,path="+there, "-device", "isa-serial,chardev=serial")
	return err
}

func (d *Driver) disks(ctx context.Context, c *command, s vmm.Spec) error {
	img := filepath.Join(s.Dir, imageLink)
	layer, err := d.layerDisk(ctx, s.Layer)
	if err != nil {
		return err
	}
	if img, err = c.file(img, os.O_RDONLY); err != nil {
		return err
	}
	if layer, err = c.file(layer, os.O_RDWR); err != nil {
		return err
	}
	c.block(map[string]any{"node-name": "image", "driver": "raw", "read-only": true,
		"file": map[string]any{"driver": "file", "filename": img, "read-only": true}})
	c.block(map[string]any{"node-name": "layer", "driver": "qcow2", "discard": "unmap", "detect-zeroes": "unmap",
		"file": map[string]any{"driver": "file", "filename": layer, "discard": "unmap"}})
	return nil
}

// kernel adds the kernel, with what it runs first and is told.
func (d *Driver) kernel(c *command, k kernel.Kernel, s vmm.Spec, sh shape, served *share.Share) error {
	plain, err := d.initrd(k)
	if err != nil {
		return err
	}
	own := filepath.Join(s.Dir, "initrd")
	if err := initrd.WithConfig(plain, own, boot.Config{
		Hostname: s.Hostname, Env: s.Env, Image: imageSerial, Layer: layerSerial, Shares: served.List(), PIDs: s.PIDs,
	}); err != nil {
		return err
	}
	// It tells the VM's environment: QEMU may read it, and no other.
	if u := owner(s.Dir); u.id != 0 {
		if err := os.Chown(own, int(u.id), int(u.id)); err != nil {
			return err
		}
	}
	return c.boot(k.Image, own, sh)
}

func (d *Driver) initrd(k kernel.Kernel) (string, error) {
	d.filesMu.Lock()
	defer d.filesMu.Unlock()
	return initrd.Make(d.path("initrd"), k, d.cfg.Guest)
}

// Adopt takes up the machine that an earlier process started for s.
func (d *Driver) Adopt(ctx context.Context, s vmm.Spec, state []byte) (vmm.Machine, error) {
	var f found
	var m *machine
	err := json.Unmarshal(state, &f)
	if err == nil {
		m, err = d.adopt(ctx, s, f)
	}
	if m == nil {
		family(s.Dir).Sweep() // also what the earlier process could not note
		return nil, errors.New("machine ended while hutchd was away")
	}
	return m, err
}

// adopt returns the machine that f tells of, with an error if its ports are
// not to be had again.
func (d *Driver) adopt(ctx context.Context, s vmm.Spec, f found) (_ *machine, lost error) {
	var w *wire
	if f.Shape.Ports != 0 {
		w, lost = d.exchange.adopt(f.Shape.Ports, f.Shape.CID)
	}
	m, err := reattach(ctx, s, f, w)
	if err == nil {
		return m, lost
	}
	if w != nil {
		w.close()
	}
	return nil, err
}

func reattach(ctx context.Context, s vmm.Spec, f found, w *wire) (*machine, error) {
	s.Image.Binds, s.Mounts = f.Binds, f.Mounts
	served, err := share.New(s)
	if err != nil {
		return nil, err
	}
	p, err := family(s.Dir).Open(f.PID)
	if err != nil {
		served.Close()
		return nil, err
	}
	m, err := attach(ctx, s, p, served, f, w)
	if err != nil {
		p.End()
		served.Close()
	}
	return m, err
}

// family is the process of the machine in dir.
func family(dir string) process.Family {
	return process.Family{Names: []string{programName, enterName}, Mark: mark(dir)}
}
