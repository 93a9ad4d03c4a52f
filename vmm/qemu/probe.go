//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/relay/guest"
	"hutch/vmm/qemu/initrd"
	"hutch/vmm/qemu/kernel"
	"hutch/vmm/qemu/qmp"
)

// The accelerators.
const (
	kvm = "kvm"
	tcg = "tcg"
)

const (
	kvmLimit   = 10 * time.Second // for a kernel to boot in; one that hangs takes all of it
	tcgLimit   = time.Minute      // for QEMU to begin
	probeAgain = 10 * time.Second // a probe that failed stands this long
	kvmDevice  = "/dev/kvm"
)

// Probe boots a kernel by KVM, and where that does not work tries whether
// QEMU begins without. It keeps the answer: for good if it works, for some
// seconds if not.
func (d *Driver) Probe(ctx context.Context) (string, error) {
	if err := d.beginProbe(ctx); err != nil {
		return "", err
	}
	defer d.endProbe()
	if d.how != "" || d.failed != nil && time.Since(d.at) < probeAgain {
		return d.how, d.failed
	}
	d.how, d.failed = d.tryAll(ctx)
	d.at = time.Now()
	if ctx.Err() != nil && d.failed != nil {
		d.at = time.Time{} // that was the caller, not the machine
	}
	return d.how, d.failed
}

// beginProbe waits until nobody else probes, or ctx is done.
func (d *Driver) beginProbe(ctx context.Context) error {
	select {
	case d.probing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *Driver) endProbe() { <-d.probing }

func (d *Driver) tryAll(ctx context.Context) (string, error) {
	if _, err := d.usable(); err != nil {
		return "", err
	}
	k, err := d.findKernel("")
	if err != nil {
		return "", err
	}
	if err := d.choose(ctx); err != nil {
		return "", err
	}
	how := d.chosen
	if d.without != nil {
		how += fmt.Sprintf(" (no kvm: %s)", fs.Text(d.without))
	}
	if d.chosen == tcg {
		if err := d.tryTCG(ctx); err != nil {
			return "", err
		}
	}
	t, err := d.trial(tcg)
	if err != nil {
		return "", err
	}
	defer t.close()
	root, err := t.root(ctx)
	if err != nil {
		return "", err
	}
	how += " kernel=" + k.Release + " user=" + owner(d.cfg.Dir).String() + " root=" + root
	w, err := d.plug(k)
	if err != nil {
		return how + fmt.Sprintf(" ports=serial (no vsock: %s)", fs.Text(err)), nil
	}
	w.close()
	return how + " ports=vsock", nil
}

// plug returns the wire of a machine with kernel k that begins, or says why it
// is to have a serial port instead.
func (d *Driver) plug(k kernel.Kernel) (*wire, error) {
	if !k.Has(initrd.Vsock) {
		return nil, fmt.Errorf("%w: kernel %s has no module %s", fs.ErrNotExist, k.Release, initrd.Vsock)
	}
	return d.exchange.plug(0, 0)
}

// accel returns the accelerator to start with. That TCG works, the start will
// tell.
func (d *Driver) accel(ctx context.Context) (string, error) {
	if err := d.beginProbe(ctx); err != nil {
		return "", err
	}
	defer d.endProbe()
	err := d.choose(ctx)
	return d.chosen, err
}

// choose finds out, once, whether KVM works.
func (d *Driver) choose(ctx context.Context) error {
	if d.chosen != "" {
		return nil
	}
	if d.cfg.Accel != "" {
		d.chosen = d.cfg.Accel
		return nil
	}
	err := d.tryKVM(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.chosen, d.without = kvm, err
	if err != nil {
		d.chosen = tcg
	}
	return nil
}

// tryKVM says why KVM cannot be had. That the device opens says little: what
// counts is that a kernel boots. As finding out that it does not takes long,
// the answer is kept for all services of this user, until the next boot.
func (d *Driver) tryKVM(ctx context.Context) error {
	if err := kvmOpens(owner(d.cfg.Dir)); err != nil {
		return err
	}
	f, err := openAnswers()
	if err != nil {
		return d.bootKVM(ctx)
	}
	defer f.Close()
	now := d.circumstances()
	if why, ok := recall(f, now); ok {
		return why
	}
	err = d.bootKVM(ctx)
	if ctx.Err() == nil {
		remember(f, now, err)
	}
	return err
}

// kvmOpens says why u cannot open the device.
func kvmOpens(u user) error {
	fd, err := unix.Open(kvmDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", fs.ErrUnsupported, kvmDevice, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if u.id != 0 && st.Mode&0o006 != 0o006 && st.Mode&0o060 != 0o060 {
		return fmt.Errorf("%w: %s is for its owner alone", fs.ErrUnsupported, kvmDevice)
	}
	return nil
}

// kvmGroups are the groups that a machine's user needs to open the device.
func kvmGroups() []uint32 {
	var st unix.Stat_t
	if err := unix.Stat(kvmDevice, &st); err != nil || st.Gid == 0 || st.Mode&0o060 != 0o060 {
		return nil
	}
	return []uint32{st.Gid}
}

// circumstances are what an answer about KVM holds for.
func (d *Driver) circumstances() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	text := strings.TrimSpace(string(boot))
	qemu, _ := d.usable()
	k, _ := d.findKernel("")
	for _, path := range []string{qemu, k.Image} {
		if fi, err := os.Stat(path); err == nil {
			text += fmt.Sprintf(" %s %d", path, fi.ModTime().UnixNano())
		}
	}
	return text
}

// openAnswers returns the file of the answer, which is this process' until it
// is closed.
func openAnswers() (*os.File, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "hutch")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "kvm.json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// answer is what the file has.
type answer struct{ For, No string }

func recall(f *os.File, now string) (error, bool) {
	var a answer
	if json.NewDecoder(f).Decode(&a) != nil || a.For != now {
		return nil, false
	}
	if a.No == "" {
		return nil, true
	}
	return errors.New(a.No), true
}

func remember(f *os.File, now string, err error) {
	a := answer{For: now}
	if err != nil {
		a.No = fs.Text(err)
	}
	if data, err := json.Marshal(a); err == nil && f.Truncate(0) == nil {
		f.WriteAt(data, 0)
	}
}

// usable returns the QEMU program, or says what is missing.
func (d *Driver) usable() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w: machines of %s are not known here", fs.ErrUnsupported, runtime.GOARCH)
	}
	if err := guest.CheckProgram("guest", d.cfg.Guest); err != nil {
		return "", err
	}
	for _, need := range [][2]string{{"qemu-img", "qemu-utils"}, {"mke2fs", "e2fsprogs"}} {
		if _, err := program(need[0], need[1]); err != nil {
			return "", err
		}
	}
	return program("qemu-system-x86_64", "qemu-system-x86")
}

func (d *Driver) findKernel(path string) (kernel.Kernel, error) {
	return kernel.Find(path, d.cfg.Kernels...)
}

// bootKVM boots the kernel that VMs have when they do not say, with the guest program, which is told nothing and so
// says that and ends.
func (d *Driver) bootKVM(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, kvmLimit, fmt.Errorf("%w: a kernel does not boot in %s", fs.ErrUnsupported, kvmLimit))
	defer cancel()
	t, err := d.trial(kvm)
	if err != nil {
		return err
	}
	defer t.close()
	k, err := d.findKernel("")
	if err != nil {
		return err
	}
	initrd, err := d.initrd(k)
	if err != nil {
		return err
	}
	if err := t.boot(k.Image, initrd, shape{Accel: kvm}); err != nil {
		return err
	}
	if err := t.run(); err != nil {
		return err
	}
	select {
	case <-t.p.Gone():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if serial, _ := os.ReadFile(t.serialLog()); !strings.Contains(string(serial), guestSays) {
		return t.failure()
	}
	return nil
}

// guestSays is what the lines of the guest program begin with.
const guestSays = "hutch: "

// tryTCG starts a machine that stands still, and has it obey.
func (d *Driver) tryTCG(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, tcgLimit, fmt.Errorf("%w: QEMU does not answer in %s", fs.ErrUnsupported, tcgLimit))
	defer cancel()
	t, err := d.trial(tcg)
	if err != nil {
		return err
	}
	defer t.close()
	t.add("-S")
	if err := t.run(); err != nil {
		return err
	}
	q, err := dialQMP(ctx, t.dir, func(qmp.Event) {})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return t.failure()
	}
	return q.Close()
}
