//go:build linux

package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"hutch/fs"
)

// A machine has its kernel and the guest's program in its memory, saved or
// not, and needs the files of neither once it runs. Which program it is, the
// shape says.

// Programs returns what a machine begins with now.
func (d *Driver) Programs() (map[string]string, error) {
	sum, err := d.guestSum()
	return map[string]string{"guest": sum}, err
}

// Programs returns what the machine began with.
func (m *machine) Programs() map[string]string {
	if m.found.Shape.Guest == "" { // an earlier driver started it
		return nil
	}
	return map[string]string{"guest": m.found.Shape.Guest}
}

// guestSum returns the SHA-256 of the guest's program, which is read again
// when it is another file.
func (d *Driver) guestSum() (string, error) {
	d.filesMu.Lock()
	defer d.filesMu.Unlock()
	f, err := os.Open(d.cfg.Guest)
	if err != nil {
		return "", fmt.Errorf("%w: no guest program: %w", fs.ErrNotExist, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fs.SameFile(d.guest, fi) {
		return d.sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	d.guest, d.sum = fi, hex.EncodeToString(h.Sum(nil))
	return d.sum, nil
}
