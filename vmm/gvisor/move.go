//go:build linux

package gvisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/pack"
	"hutch/vmm/process"
)

// flagsNeed is the word for what runsc was started with.
const flagsNeed = "flags"

// Carry has a checkpoint go without the programs that it is kept with: no host
// runs another's. That has to have the same.
func (d *Driver) Carry(dir string) (m pack.Memory, stays func(name string) bool, err error) {
	a, err := readAbout(filepath.Join(dir, programs))
	if err == nil && a.Guessed {
		err = errGuessed
	}
	if err != nil {
		return m, nil, fmt.Errorf("%w: programs of the checkpoint: %w", fs.ErrUnsupported, err)
	}
	m = pack.Memory{Needs: a.needs(), Features: process.Features()}
	return m, func(name string) bool { return name == programs || strings.HasPrefix(name, programs+"/") }, nil
}

// needs are what a checkpoint can be restored by.
func (a about) needs() map[string]string {
	n := a.sums()
	n[flagsNeed] = strings.Join(a.Flags, " ")
	return n
}

// Receive gives a checkpoint that came from elsewhere this host's programs, where
// they are those that it needs. Its configuration goes before ours when it is
// restored, so it must be what ours is for s: no mount of it is another's.
func (d *Driver) Receive(_ context.Context, s vmm.Spec, dir string, needs map[string]string) error {
	c, err := saved(dir)
	if err != nil {
		return err
	}
	if !sameJSON(c.placed(d.configure(s)), d.configure(s)) {
		return fmt.Errorf("%w: checkpoint is of a machine with other mounts, limits or rights than this VM's", fs.ErrUnsupported)
	}
	d.programsMu.Lock()
	defer d.programsMu.Unlock()
	a, err := d.lay()
	if err != nil {
		return err
	}
	if have := a.needs(); !maps.Equal(have, needs) {
		for name := range have {
			if have[name] != needs[name] {
				return fmt.Errorf("%w: checkpoint needs %s %.12q, and here is %.12q", fs.ErrUnsupported, name, needs[name], have[name])
			}
		}
		return fmt.Errorf("%w: checkpoint needs programs that are not known here", fs.ErrUnsupported)
	}
	return share(filepath.Join(d.cfg.Dir, programs), filepath.Join(dir, programs))
}

func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, yerr := json.Marshal(b)
	return err == nil && yerr == nil && bytes.Equal(x, y)
}
