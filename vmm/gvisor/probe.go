//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
	"hutch/vmm"
)

const (
	probeLimit = time.Minute      // for a platform to boot in, on a busy machine too
	probeAgain = 10 * time.Second // a probe that failed stands this long
)

// platforms are tried in this order.
var platforms = []string{"systrap", "ptrace"}

// Probe boots a sandbox with each platform until one works, and keeps the
// answer: for good if it works, for some seconds if not.
func (d *Driver) Probe(ctx context.Context) (string, error) {
	select {
	case d.probing <- struct{}{}:
		defer func() { <-d.probing }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if d.how != "" || d.failed != nil && time.Since(d.at) < probeAgain {
		return d.how, d.failed
	}
	d.how, d.failed = "", d.usable()
	if d.failed == nil {
		d.how, d.failed = d.tryAll(ctx)
	}
	d.at = time.Now()
	if ctx.Err() != nil && d.failed != nil {
		d.at = time.Time{} // that was the caller, not the machine
	}
	return d.how, d.failed
}

// tryAll tries the platforms until one works. Where none does, it returns why
// each did not.
func (d *Driver) tryAll(ctx context.Context) (string, error) {
	if err := guest.CheckProgram("runsc", d.cfg.Runsc); err != nil { // which is run in a sandbox
		return "", err
	}
	var errs []string
	for _, platform := range d.candidates() {
		how, err := d.try(ctx, platform)
		if err == nil {
			d.chosen.Store(&platform)
			return how, nil
		}
		if errors.Is(err, fs.ErrUnsupported) || ctx.Err() != nil {
			return "", err
		}
		errs = append(errs, platform+": "+err.Error())
	}
	return "", fmt.Errorf("%w: no platform works: %s", fs.ErrUnsupported, strings.Join(errs, "; "))
}

func (d *Driver) candidates() []string {
	if d.cfg.Platform != "" {
		return []string{d.cfg.Platform}
	}
	return platforms
}

// usable says what is missing before anything is tried.
func (d *Driver) usable() error {
	if st, err := os.Stat(d.cfg.Runsc); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return fmt.Errorf("%w: no runsc program at %s", fs.ErrNotExist, d.cfg.Runsc)
	}
	return guest.CheckProgram("guest", d.cfg.Guest)
}

// try boots a sandbox that has runsc itself, a static program, print its
// version, on an overlay as VMs have it.
func (d *Driver) try(ctx context.Context, platform string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := os.MkdirAll(d.cfg.Dir, 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(d.cfg.Dir, "probe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"image", "layer", "rootfs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return "", err
		}
	}
	c := base(filepath.Join(dir, "rootfs"), "/runsc", "--version")
	c.Mounts = append(c.Mounts, bind("/runsc", d.cfg.Runsc, "ro"))
	if err := fs.WriteJSON(filepath.Join(dir, configName), c, false); err != nil {
		return "", err
	}
	log := filepath.Join(dir, "log")
	err = run(ctx, entry{
		Lower: filepath.Join(dir, "image"), Layer: filepath.Join(dir, "layer"), Root: filepath.Join(dir, "rootfs"),
		Runsc: d.cfg.Runsc, Flags: slices.Concat(where(dir, platform), flags, []string{"--log=" + log}), Log: log,
		Args: []string{"run", "-bundle", dir, "probe"},
	}, filepath.Join(dir, "out"))
	if err != nil {
		family(dir).Sweep()
		return "", err
	}
	return platform + " rootless=" + yes(!privileged()) + " layer=" + layerKept(log), nil
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// layerKept says where the guest's writes go: to the disk, or to memory where
// the system has no overlay for us.
func layerKept(log string) string {
	data, _ := os.ReadFile(log)
	if strings.Contains(string(data), noOverlay) {
		return "memory"
	}
	return "disk"
}

// platform returns the platform to start with. Before any probe has ended that
// is the first: whether it works, the start will tell.
func (d *Driver) platform() (string, error) {
	if err := d.usable(); err != nil {
		return "", err
	}
	if chosen := d.chosen.Load(); chosen != nil {
		return *chosen, nil
	}
	return d.candidates()[0], nil
}

// again starts the machine of s with another platform than the one that
// failed with err, if a probe finds one. Where nothing can be started here,
// the probe's reason is the error.
func (d *Driver) again(ctx context.Context, s vmm.Spec, failed string, how []string, err error) (*machine, error) {
	if ctx.Err() != nil || errors.Is(err, fs.ErrUnsupported) {
		return nil, err
	}
	if _, perr := d.Probe(ctx); perr != nil {
		return nil, perr
	}
	platform, perr := d.platform()
	if perr != nil || platform == failed {
		return nil, err
	}
	return d.launch(ctx, s, platform, how)
}
