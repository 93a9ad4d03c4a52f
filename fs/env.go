package fs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"hutch/vmm/guest"
)

// environment returns the variables in the VM's env folder.
func (v *vm) environment() (map[string]string, error) {
	list, err := v.Env()
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	for _, kv := range list {
		k, value, _ := strings.Cut(kv, "=")
		env[k] = value
	}
	return env, nil
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
	if changes := v.changes(v.told, now); len(changes) > 0 {
		if err := g.SetEnv(ctx, changes); err != nil {
			return err
		}
	}
	v.told = told{env: now, all: true}
	return nil
}

// changes returns what makes a guest that was told know now: K=V for what is
// to be set, K for what is to go. What goes has the profile's value again.
func (v *vm) changes(was told, now map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if old, ok := was.env[k]; !was.all || !ok || old != now[k] {
			list = append(list, k+"="+now[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(was.env)) {
		if _, ok := now[k]; ok {
			continue
		}
		if value, ok := v.profileEnv()[k]; ok {
			k += "=" + value
		}
		list = append(list, k)
	}
	return list
}

func (v *vm) profileEnv() map[string]string {
	p, err := v.s.profiles.Get(v.Config().Profile)
	if err != nil {
		return nil
	}
	return p.Env
}
