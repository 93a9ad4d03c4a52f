package tree

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"hutch/fs"
	"hutch/vmm/guest"
)

// nameVariable tells the programs in a guest the name of their VM.
const nameVariable = "HUTCH_VM"

// admitVariable says why env/ can have no file of that name. What only is not
// the name of a variable, as those that editors make beside a file, it can:
// that is passed over.
func admitVariable(name string) error {
	switch {
	case name == nameVariable:
		return fmt.Errorf("%w: %s is the name of the VM, and is not set otherwise", fs.ErrInvalid, name)
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsControl(r) }):
		return fmt.Errorf("%w: %q is not the name of a variable: letters, digits and '_', no digit first", fs.ErrInvalid, name)
	}
	return nil
}

// environment returns the variables in the VM's env folder, and its name.
func (v *vm) environment() (map[string]string, error) {
	list, err := v.Env()
	if err != nil {
		return nil, err
	}
	env := variables(list)
	env[nameVariable] = v.Name()
	return env, nil
}

// variables returns what a list of K=V sets.
func variables(list []string) map[string]string {
	env := make(map[string]string)
	for _, kv := range list {
		k, value, _ := strings.Cut(kv, "=")
		env[k] = value
	}
	return env
}

// A told is what a guest knows of the env folder.
type told struct {
	env map[string]string
	all bool // it knows it for certain: not before the first command, as it may be an adopted one
}

// tellEnv tells the guest what has changed in env/, so that the next command
// sees what was last written.
func (v *vm) tellEnv(ctx context.Context, g *guest.Guest) error {
	now, err := v.environment()
	if err != nil {
		return err
	}
	v.telling.Lock()
	defer v.telling.Unlock()
	changes, err := v.changes(v.told, now)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		if err := g.SetEnv(ctx, changes); err != nil {
			return err
		}
	}
	v.told = told{env: now, all: true}
	return nil
}

// changes returns what makes a guest that was told know now: K=V for what is
// to be set, K for what is to go. What goes has the value again that it has
// where the VM does not say otherwise.
func (v *vm) changes(was told, now map[string]string) ([]string, error) {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if old, ok := was.env[k]; !was.all || !ok || old != now[k] {
			list = append(list, k+"="+now[k])
		}
	}
	var given map[string]string
	for _, k := range slices.Sorted(maps.Keys(was.env)) {
		if _, ok := now[k]; ok {
			continue
		}
		if given == nil {
			env, err := v.GivenEnv()
			if err != nil {
				return nil, err
			}
			given = variables(env)
		}
		if value, ok := given[k]; ok {
			k += "=" + value
		}
		list = append(list, k)
	}
	return list, nil
}
