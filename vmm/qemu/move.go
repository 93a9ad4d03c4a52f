//go:build linux

package qemu

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/pack"
	"hutch/vmm/process"
)

// The words for what a saved machine needs. Its kernel and the guest's program are
// in its memory, and its image goes with it: no two disks that are made of the
// same files have the same bytes.
const (
	needMachine   = "machine" // a type with a version: QEMU knows it from that one on
	needAccel     = "accel"
	needPorts     = "ports"
	needProcessor = "processor" // where the guest has the host's own
)

// Carry has all go that Save wrote.
func (d *Driver) Carry(dir string) (m pack.Memory, stays func(name string) bool, err error) {
	sh, err := readShape(dir)
	if err != nil {
		return m, nil, err
	}
	m.Needs = sh.needs()
	if sh.Accel == kvm {
		m.Features = process.Features()
	}
	return m, func(string) bool { return false }, nil
}

func (s shape) needs() map[string]string {
	n := map[string]string{needMachine: s.Machine, needAccel: s.Accel, needPorts: "serial"}
	if s.Ports != 0 {
		n[needPorts] = "vsock"
	}
	if s.Accel == kvm {
		n[needProcessor] = process.Model()
	}
	return n
}

// Receive sees to it that the machine which another host has saved can be had
// here, and is no other than s is to have. The memory and the image only QEMU
// reads, which has nothing of the host's.
func (d *Driver) Receive(ctx context.Context, s vmm.Spec, dir string, needs map[string]string) error {
	sh, err := readShape(dir)
	if err != nil {
		return err
	}
	have := sh.needs()
	for _, name := range slices.Sorted(maps.Keys(have)) {
		switch {
		case have[name] == needs[name]:
		case name == needProcessor:
			return fmt.Errorf("%w: it needs %s %.64q, and here is %.64q", fs.ErrUnsupported, name, needs[name], have[name])
		default: // both were told of the same machine
			return fmt.Errorf("%w: the archive says %s %.64q and its machine has %.64q", fs.ErrInvalid, name, needs[name], have[name])
		}
	}
	if err := sh.fits(s); err != nil {
		return err
	}
	if err := d.knows(ctx, sh); err != nil {
		return err
	}
	sh.CID = 0 // whose it was there is another's here
	return fs.WriteJSON(filepath.Join(dir, savedShape), sh, false)
}

// maxShape is how long the text of a shape is.
const maxShape = 4 << 10

// readShape reads what Save wrote of the machine.
func readShape(dir string) (sh shape, err error) {
	path := filepath.Join(dir, savedShape)
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxShape {
		return sh, fmt.Errorf("%w: saved machine has no %s", fs.ErrInvalid, savedShape)
	}
	return sh, fs.ReadJSON(path, &sh)
}

// maxCPUs is how many processors a machine of any host has.
const maxCPUs = 255

var (
	aSum  = regexp.MustCompile(`^([0-9a-f]{64})?$`)
	aType = regexp.MustCompile(`^pc-i440fx-[\w.]+$`)
)

// fits says in what a shape is not what s says.
func (sh shape) fits(s vmm.Spec) error {
	if ram := s.RAM; ram != sh.RAM && (ram != 0 || sh.RAM != defaultRAM) {
		return fmt.Errorf("%w: it has %d MiB of memory, which is not this VM's", fs.ErrUnsupported, sh.RAM>>20)
	}
	if sh.CPUs < 1 || sh.CPUs > maxCPUs || s.CPUs != 0 && s.CPUs != sh.CPUs {
		return fmt.Errorf("%w: it has %d processors, which are not this VM's", fs.ErrUnsupported, sh.CPUs)
	}
	if !aSum.MatchString(sh.Guest) {
		return fmt.Errorf("%w: saved machine has the guest's program %.80q", fs.ErrInvalid, sh.Guest)
	}
	if n := sh.Ports; n != 0 && (n < firstPorts || (n-firstPorts)%portsEach != 0 || (n-firstPorts)/portsEach >= portGroups) {
		return fmt.Errorf("%w: saved machine has ports from %d on", fs.ErrInvalid, n)
	}
	return nil
}

// knows says what of a shape cannot be had on this host.
func (d *Driver) knows(ctx context.Context, sh shape) error {
	switch accel, err := d.accel(ctx); {
	case err != nil:
		return err
	case sh.Accel != tcg && sh.Accel != accel:
		return fmt.Errorf("%w: it was accelerated by %.32q, and here is %s", fs.ErrUnsupported, sh.Accel, accel)
	}
	qemu, err := d.usable()
	if err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, qemu, "-machine", "help").Output()
	if err != nil {
		return fmt.Errorf("%w: qemu: %w", fs.ErrIO, err)
	}
	if !aType.MatchString(sh.Machine) || !strings.Contains(string(list), "\n"+sh.Machine+" ") {
		return fmt.Errorf("%w: this QEMU has no machine %.64q", fs.ErrUnsupported, sh.Machine)
	}
	if sh.Ports == 0 {
		return nil
	}
	w, err := d.exchange.plug(sh.Ports, 0)
	if err != nil {
		return fmt.Errorf("%w: it has ports on vhost-vsock: %w", fs.ErrUnsupported, err)
	}
	w.close()
	return nil
}
