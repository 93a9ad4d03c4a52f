//go:build linux

package gvisor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"hutch/fs/node"
	"hutch/vmm"
)

// Start starts a sandbox.
func (d *Driver) Start(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	return d.begin(ctx, s, "run")
}

// Restore starts a sandbox from a checkpoint.
func (d *Driver) Restore(ctx context.Context, s vmm.Spec, dir string) (vmm.Machine, error) {
	return d.begin(ctx, s, "restore", "-image-path", dir)
}

// begin starts a sandbox by the runsc command that how says.
func (d *Driver) begin(ctx context.Context, s vmm.Spec, how ...string) (vmm.Machine, error) {
	platform, err := d.platform(ctx)
	if err == nil {
		err = d.layGuest()
	}
	if err == nil {
		err = d.prepare(s)
	}
	if err != nil {
		return nil, err
	}
	p, err := listen(s)
	if err != nil {
		return nil, err
	}
	m, err := d.launch(ctx, s, platform, how)
	if err != nil {
		m, err = d.again(ctx, s, platform, how, err)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	m.d, m.ports = d, p
	go m.watch()
	return m, nil
}

// prepare makes the bundle that runsc is to run.
func (d *Driver) prepare(s vmm.Spec) error {
	if err := os.Mkdir(filepath.Join(s.Dir, "rootfs"), 0o755); err != nil {
		return err
	}
	return d.configure(s).write(s.Dir)
}

// launch runs runsc and takes up the processes that it leaves.
func (d *Driver) launch(ctx context.Context, s vmm.Spec, platform string, how []string) (*machine, error) {
	e := entry{
		Lower: s.Image.Root, Layer: s.Layer, Root: filepath.Join(s.Dir, "rootfs"), CPUs: s.CPUs, Log: s.Log,
		RAM: s.RAM, Dir: s.Dir, Groups: s.Enter,
		Runsc: d.cfg.Runsc, Flags: append(d.flags(s.Dir, platform), "--log="+s.Log, "--panic-log="+s.Log),
		Args: append(slices.Clone(how), "-detach", "-bundle", s.Dir, s.Name),
	}
	err := run(ctx, e, s.Serial)
	var f found
	if err == nil {
		f, err = findPIDs(s.Dir)
	}
	var m *machine
	if err == nil {
		m, err = attach(s, f)
	}
	if err != nil {
		family(s.Dir).Sweep()
		return nil, err
	}
	return m, nil
}

func (d *Driver) flags(dir, platform string) []string {
	return append([]string{"--root=" + filepath.Join(dir, "runsc"), "--platform=" + platform}, flags...)
}

// Adopt takes up the sandbox that an earlier process started for s.
func (d *Driver) Adopt(ctx context.Context, s vmm.Spec, state []byte) (vmm.Machine, error) {
	awaitControl(ctx, s.Dir)
	m, err := find(s, state)
	if err != nil {
		return nil, errors.New("sandbox ended while hutchd was away")
	}
	// One without its ports runs, and can be ended.
	m.ports, err = listen(s)
	m.d = d
	go m.watch()
	return m, err
}

// find returns the machine that State told of, or that runsc has noted: the
// earlier process may have gone before it could note what it had started.
// What there is of a machine that is no more is killed.
func find(s vmm.Spec, state []byte) (*machine, error) {
	var told found
	noted := json.Unmarshal(state, &told) == nil
	if noted {
		if m, err := attach(s, told); err == nil {
			return m, nil
		}
		family(s.Dir).Kill(told.Sandbox, told.Gofer)
	}
	f, err := findPIDs(s.Dir)
	if err == nil && f != told {
		var m *machine
		if m, err = attach(s, f); err == nil {
			return m, nil
		}
		noted = false
	}
	if !noted {
		family(s.Dir).Sweep()
	}
	return nil, cmp.Or(err, errGone)
}

// errGone is returned for a machine that has ended.
var errGone = errors.New("no sandbox")

// layGuest makes the folder of hutch's programs that guests see.
func (d *Driver) layGuest() error {
	d.laying.Lock()
	defer d.laying.Unlock()
	src, err := os.Stat(d.cfg.Guest)
	if err != nil {
		return fmt.Errorf("%w: no guest program at %s", node.ErrNotExist, d.cfg.Guest)
	}
	to := filepath.Join(d.bin(), "hutch-guest")
	if dst, err := os.Stat(to); err == nil && dst.Size() == src.Size() && dst.ModTime().Equal(src.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(d.bin(), 0o755); err != nil {
		return err
	}
	if err := os.Symlink("hutch-guest", filepath.Join(d.bin(), "hutch-relay")); err != nil && !os.IsExist(err) {
		return err
	}
	return copyProgram(d.cfg.Guest, to, src)
}

// copyProgram puts a copy of from in the place of to, which may be running.
func copyProgram(from, to string, src os.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	if err := os.Chtimes(out.Name(), src.ModTime(), src.ModTime()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
