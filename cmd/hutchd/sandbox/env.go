package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"hutch/fs"
	"hutch/relay/guest"
)

// nameVariable tells the programs in a guest the name of their VM.
const nameVariable = "HUTCH_VM"

// CheckVariable says why env/ can have no file of that name. What only is not
// the name of a variable, as those that editors make beside a file, it can:
// that is passed over.
func CheckVariable(name string) error {
	switch {
	case name == nameVariable:
		return fmt.Errorf("%w: %s is the name of the VM, and is not set otherwise", fs.ErrInvalid, name)
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '=' || unicode.IsControl(r) }):
		return fmt.Errorf("%w: %q is not the name of a variable: letters, digits and '_', no digit first", fs.ErrInvalid, name)
	}
	return nil
}

// environment returns the variables in the VM's env folder, and its name.
func (v *Sandbox) environment() (map[string]string, error) {
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

// guestEnv is what the guest's agent was last told of the env folder.
type guestEnv struct {
	env   map[string]string
	known bool // that it was told so: not before the first command, as the guest may be an adopted one
}

// tellEnv tells the guest what has changed in env/, so that the next command
// sees what was last written.
func (v *Sandbox) tellEnv(ctx context.Context, g *guest.Guest) error {
	now, err := v.environment()
	if err != nil {
		return err
	}
	v.guestEnvMu.Lock()
	defer v.guestEnvMu.Unlock()
	changes, err := v.changes(v.guestEnv, now)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		if err := v.Give(changes); err != nil {
			return err
		}
		if err := g.SetEnv(ctx, changes); err != nil {
			return err
		}
	}
	v.guestEnv = guestEnv{env: now, known: true}
	return nil
}

// changes returns what to tell a guest that was last told was, so that it has
// now: K=V sets a variable, K removes one. A variable that goes from env/ gets
// the value again that it has without env/, if any.
func (v *Sandbox) changes(was guestEnv, now map[string]string) ([]string, error) {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if old, ok := was.env[k]; !was.known || !ok || old != now[k] {
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
