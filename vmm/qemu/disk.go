//go:build linux

package qemu

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// layerSize is how much a VM may write outside its workspace, in bytes. On
// the host it takes what was written.
const layerSize = 16 << 30

// layerDisk returns the VM's disk in the folder layer, which is made when
// there is none: a copy of an empty file system. It depends on no other file.
func (d *Driver) layerDisk(ctx context.Context, layer string) (string, error) {
	path := filepath.Join(layer, "disk.qcow2")
	if _, err := os.Stat(path); err == nil {
		return path, nil
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

// emptyDisk returns a disk with an empty file system, which is made once.
func (d *Driver) emptyDisk(ctx context.Context) (string, error) {
	d.laying.Lock()
	defer d.laying.Unlock()
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
	if err := os.WriteFile(raw, nil, 0o600); err != nil {
		return "", err
	}
	if err := os.Truncate(raw, layerSize); err != nil {
		return "", err
	}
	err = tool(ctx, "mke2fs", "e2fsprogs", "-q", "-F", "-t", "ext4", "-m", "0", "-i", "32768", "-J", "size=32",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", raw)
	if err == nil {
		err = tool(ctx, "qemu-img", "qemu-utils", "convert", "-c", "-f", "raw", "-O", "qcow2", raw, qcow2)
	}
	if err != nil {
		return "", err
	}
	return path, os.Rename(qcow2, path)
}

// tool runs a program of the Debian package pkg.
func tool(ctx context.Context, name, pkg string, args ...string) error {
	path, err := program(name, pkg)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %s: %w: %s", fs.ErrIO, name, err, strings.TrimSpace(string(out)))
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
