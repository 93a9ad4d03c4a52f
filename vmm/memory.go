package vmm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/vmm/pack"
)

// A Mover is a Driver whose saved machines can go on on another host.
type Mover interface {
	// Carry looks at a folder that Save wrote, and returns what the other host
	// must have, and which of the files there stay here, by their path, as it
	// has them too.
	Carry(dir string) (m pack.Memory, stays func(name string) bool, err error)
	// Receive completes a folder of which another host had what Carry let go, so
	// that Restore can make a machine for s of it; or says why none can be made
	// here. It trusts nothing in dir.
	Receive(ctx context.Context, s Spec, dir string, needs map[string]string) error
}

// secrets returns the names of the variables that are secret.
func (p *packing) secrets() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(p.dir, "env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !variable.MatchString(e.Name()) {
			continue
		}
		value, err := readEnv(filepath.Join(p.dir, "env", e.Name()))
		if err != nil || p.hooks.Secret(e.Name(), value) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// held returns the variables that are secret and that the guest was given, or
// might be now.
func (p *packing) held() ([]string, error) {
	given, err := p.v.variables()
	names := slices.Clone(p.m.Secrets)
	for _, kv := range given {
		if name, value, _ := strings.Cut(kv, "="); p.hooks.Secret(name, value) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// memory adds the memory of a suspended VM, or the reason why it stays, which is an
// error where it was asked for by name.
func (p *packing) memory() error {
	d, err := p.v.t.driver(p.was.Driver)
	m, moves := d.(Mover)
	switch {
	case p.want.Memory == pack.No:
		p.m.Without = "it was not asked for"
	case err != nil || !moves:
		p.m.Without = fmt.Sprintf("driver %s cannot have it go on elsewhere", p.was.Driver)
	case p.want.Memory != pack.Yes:
		held, err := p.held()
		switch {
		case err != nil:
			p.m.Without = "its variables are not known, and it was not asked for by name"
		case len(held) > 0:
			p.m.Without = "it may hold " + strings.Join(held, " ") + ", and was not asked for by name"
		}
	}
	var memory pack.Memory
	var stays func(string) bool
	if p.m.Without == "" {
		if memory, stays, err = m.Carry(filepath.Join(p.v.path(savedName), savedMachine)); err != nil {
			p.m.Without = fs.Text(err)
		}
	}
	switch {
	case p.m.Without == "":
	case p.want.Memory == pack.Yes:
		return fmt.Errorf("%w: memory of vm %q: %s", fs.ErrUnsupported, p.v.Name(), p.m.Without)
	default:
		return nil
	}
	p.m.Memory = &memory
	p.add(pack.Folder{Name: "saved", Dir: p.v.path(savedName), Omit: func(name string) bool {
		below, ok := strings.CutPrefix(name, savedMachine+"/")
		return ok && stays(below)
	}})
	return nil
}
