// Package initrd makes the initial RAM disk that a virtual machine's kernel begins
// with: an archive with hutch's guest program as /init, the modules that the kernel
// needs to find its disks and the host, and nothing else.
//
// The archive is the same for all VMs with the same kernel, and kept. What is
// one VM's own is a second archive, appended to it: the kernel unpacks one
// after the other. The first is not compressed: without KVM unpacking takes
// longer than what is saved.
package initrd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/relay/boot"
	"hutch/vmm/qemu/kernel"
)

// Modules are what a guest needs of its kernel, beside what the kernel has
// built in: those marked with ? are used where they are.
var Modules = []string{
	"virtio_pci", "virtio_blk", "virtio_console", "virtio_rng?", "crc32c_generic?",
	"ext4", "overlay", "fuse", Vsock + "?", "vsock_loopback?",
}

// Vsock is the module by which a guest reaches its host on AF_VSOCK.
const Vsock = "vmw_vsock_virtio_transport"

const prefix = "initrd-"

// Make returns the file in dir, which is made if need be, that has the
// archive for kernel k with the program guest, a static one. It is made if it
// is not there yet, and named by its contents; one of another content, of an
// older program, is removed.
func Make(dir string, k kernel.Kernel, guest string) (string, error) {
	program, err := os.ReadFile(guest)
	if err != nil {
		return "", fmt.Errorf("%w: no guest program: %w", fs.ErrNotExist, err)
	}
	modules, err := k.Load(Modules...)
	if err != nil {
		return "", err
	}
	data := archive(contents(program, modules))
	sum := sha256.Sum256(data)
	name := prefix + k.Release + "-"
	path := filepath.Join(dir, name+hex.EncodeToString(sum[:8]))
	if fi, err := os.Stat(path); err == nil && fi.Size() == int64(len(data)) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(dir, name+"*"))
	err = fs.Replace(path, false, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Chmod(0o644))
	})
	if err != nil {
		return "", err
	}
	for _, o := range old {
		if o != path { // which may have been there, cut short
			os.Remove(o)
		}
	}
	return path, nil
}

// contents are the files of the archive. /modules/order names the modules in
// the order in which they are to be loaded.
func contents(program []byte, modules []kernel.Module) []entry {
	list := []entry{
		{name: "dev", mode: folder | 0o755},
		{name: "dev/console", mode: character | 0o600, dev: [2]uint32{5, 1}},
		{name: "init", mode: regular | 0o755, data: program},
		{name: "modules", mode: folder | 0o755},
	}
	var order strings.Builder
	for _, m := range modules {
		list = append(list, entry{name: "modules/" + m.Name, mode: regular | 0o644, data: m.Data})
		fmt.Fprintln(&order, m.Name)
	}
	return append(list, entry{name: "modules/order", mode: regular | 0o644, data: []byte(order.String())})
}

// WithConfig writes the file out, for its owner alone: the archive base and
// what one VM is told.
func WithConfig(base, out string, c boot.Config) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	in, err := os.Open(base)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if err == nil {
		_, err = f.Write(archive([]entry{{name: "config", mode: regular | 0o600, data: text}}))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(out)
	}
	return err
}
