//go:build linux

package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"hutch/fs"
	"hutch/vmm"
)

// Start starts a sandbox.
func (d *Driver) Start(ctx context.Context, s vmm.Spec) (vmm.Machine, error) {
	err := d.usable()
	if err == nil {
		err = d.give(s.Dir)
	}
	if err != nil {
		return nil, err
	}
	return d.begin(ctx, s, false, d.configure(s), "run")
}

// Restore starts a sandbox from a checkpoint.
func (d *Driver) Restore(ctx context.Context, s vmm.Spec, dir string) (vmm.Machine, error) {
	guessed, err := d.inherit(s, dir)
	if err != nil {
		return nil, err
	}
	c, err := saved(dir)
	if err != nil {
		return nil, err
	}
	m, err := d.begin(ctx, s, guessed, c.placed(d.configure(s)), "restore", "-image-path", dir)
	if err != nil && guessed && ctx.Err() == nil {
		err = fmt.Errorf("%w (%w)", err, errGuessed)
	}
	return m, err
}

// begin starts a sandbox with the configuration c, by the runsc command that
// how says, with programs that may be guessed.
func (d *Driver) begin(ctx context.Context, s vmm.Spec, guessed bool, c ociSpec, how ...string) (vmm.Machine, error) {
	platform, err := d.platform()
	if err == nil {
		err = os.Mkdir(filepath.Join(s.Dir, "rootfs"), 0o755)
	}
	if err == nil {
		err = fs.WriteJSON(filepath.Join(s.Dir, configName), c, false)
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
	m.d, m.ports, m.guessed = d, p, guessed
	go m.watch()
	return m, nil
}

// launch runs runsc and takes up the processes that it leaves.
func (d *Driver) launch(ctx context.Context, s vmm.Spec, platform string, how []string) (*machine, error) {
	a, err := readAbout(filepath.Join(s.Dir, programs))
	if err != nil {
		return nil, err
	}
	e := entry{
		Lower: s.Image.Root, Layer: s.Layer, Root: filepath.Join(s.Dir, "rootfs"), CPUs: s.CPUs, Log: s.Log,
		RAM: s.RAM, Dir: s.Dir, Groups: s.Enter,
		Runsc: filepath.Join(s.Dir, programs, runscName),
		Flags: slices.Concat(where(s.Dir, platform), a.Flags, []string{"--log=" + s.Log, "--panic-log=" + s.Log}),
		Args:  append(slices.Clone(how), "-detach", "-bundle", s.Dir, s.Name),
	}
	err = run(ctx, e, s.Serial)
	var n notes
	if err == nil {
		n, err = readNotes(s.Dir)
	}
	var m *machine
	if err == nil {
		m, err = attach(s, n)
	}
	if err != nil {
		family(s.Dir).Sweep()
		return nil, err
	}
	return m, nil
}

// where returns the flags of runsc that say where it keeps its notes of the
// machine in dir, and how that runs.
func where(dir, platform string) []string {
	return []string{"--root=" + filepath.Join(dir, "runsc"), "--platform=" + platform}
}

// Adopt takes up the sandbox that an earlier process started for s.
func (d *Driver) Adopt(ctx context.Context, s vmm.Spec, state []byte) (vmm.Machine, error) {
	awaitControl(ctx, s.Dir)
	m, err := find(s)
	if err != nil {
		if state == nil { // whoever began it did not see it through
			family(s.Dir).Sweep()
		}
		return nil, errors.New("sandbox ended while hutchd was away")
	}
	// One without its ports runs, and can be ended.
	m.ports, err = listen(s)
	m.d = d
	go m.watch()
	return m, err
}

// find returns the machine that runsc has noted. What there is of one that is
// no more is killed.
func find(s vmm.Spec) (*machine, error) {
	n, err := readNotes(s.Dir)
	if err != nil {
		family(s.Dir).Sweep()
		return nil, err
	}
	m, err := attach(s, n)
	if err != nil {
		family(s.Dir).Kill(n.Sandbox.Pid, n.GoferPid)
	}
	return m, err
}
