//go:build linux

package qemu

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm/image"
)

// layerSize is how much a VM may write outside its workspace, in bytes. On
// the host it takes what was written.
const layerSize = 16 << 30

// layerDisk returns the VM's disk in the folder layer, which is made when
// there is none: a copy of an empty file system. It depends on no other file.
func (d *Driver) layerDisk(ctx context.Context, layer string) (string, error) {
	path := filepath.Join(layer, "disk.qcow2")
	if _, err := os.Lstat(path); err == nil {
		return path, ownDisk(path)
	}
	empty, err := d.emptyDisk(ctx)
	if err != nil {
		return "", err
	}
	in, err := os.Open(empty)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return path, fs.Replace(path, false, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
}

// ownDisk says why QEMU may not have the qcow2 file at path, which an archive may
// have brought: QEMU would open by name what such a file says that it stands on,
// or has its data in.
func ownDisk(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var head struct {
		Magic, Version uint32
		Backing        uint64 // where the name of the file is that it stands on
		_              [7]uint64
		Features       uint64 // that a reader must know
	}
	const magic, dataElsewhere = 0x514649fb, 1 << 2
	if err := binary.Read(f, binary.BigEndian, &head); err != nil || head.Magic != magic || head.Version != 3 {
		return fmt.Errorf("%w: %s is no disk of hutch's", fs.ErrInvalid, filepath.Base(path))
	}
	if head.Backing != 0 || head.Features&dataElsewhere != 0 {
		return fmt.Errorf("%w: %s stands on another file", fs.ErrPermission, filepath.Base(path))
	}
	return nil
}

// emptyDisk returns a disk with an empty file system, which is made once.
func (d *Driver) emptyDisk(ctx context.Context) (string, error) {
	d.filesMu.Lock()
	defer d.filesMu.Unlock()
	path := d.path("empty.qcow2")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	dir, err := os.MkdirTemp(d.cfg.Dir, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	raw, qcow2 := filepath.Join(dir, "raw"), filepath.Join(dir, "qcow2")
	if err := image.EmptyDisk(ctx, raw, layerSize); err != nil {
		return "", err
	}
	convert, err := program("qemu-img", "qemu-utils")
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, convert, "convert", "-c", "-f", "raw", "-O", "qcow2", raw, qcow2).CombinedOutput()
	switch {
	case err == nil:
		return path, os.Rename(qcow2, path)
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("%w: qemu-img: %w: %s", fs.ErrIO, err, strings.TrimSpace(string(out)))
}

// program returns the path of the program name, also where only root has its
// folder in PATH.
func program(name, pkg string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: no program %s: install Debian's package %s", fs.ErrUnsupported, name, pkg)
}
