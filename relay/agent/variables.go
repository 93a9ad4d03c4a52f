package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/fs"
)

// variables are what the host has changed of the environment of commands to
// come: what it set, and what it took away of the agent's own.
type variables struct {
	set  map[string]string
	gone map[string]bool
}

func (a *Agent) vmEnv() variables {
	a.mu.Lock()
	defer a.mu.Unlock()
	return variables{maps.Clone(a.env.set), maps.Clone(a.env.gone)}
}

func (a *Agent) setEnv(name, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.env.set[name] = value
	delete(a.env.gone, name)
}

func (a *Agent) unsetEnv(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.env.set, name)
	a.env.gone[name] = true
}

// envText returns the VM's variables as the control messages that set them.
func (a *Agent) envText() string {
	var b strings.Builder
	env := a.vmEnv()
	for _, k := range slices.Sorted(maps.Keys(env.set)) {
		fmt.Fprintf(&b, "env %s %s\n", fs.Quote(k), fs.Quote(env.set[k]))
	}
	return b.String()
}

// readVariables returns the VM's variables as writeVariables takes them.
func readVariables(c call) (string, error) {
	var b strings.Builder
	env := c.At.a.vmEnv()
	for _, k := range slices.Sorted(maps.Keys(env.set)) {
		b.WriteString(k + "=" + env.set[k] + "\x00")
	}
	for _, k := range slices.Sorted(maps.Keys(env.gone)) {
		b.WriteString(k + "\x00")
	}
	return b.String(), nil
}

// writeVariables changes variables, each ended by a NUL so that its value may
// have newlines in it: K=V sets one, K alone takes it away, and those that
// are not named stay as they are.
func writeVariables(c call, text string) error {
	if text == "" {
		return nil
	}
	items := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for _, kv := range items {
		k, v, _ := strings.Cut(kv, "=")
		if err := checkEnv(k, v); err != nil {
			return err
		}
	}
	for _, kv := range items {
		if k, v, ok := strings.Cut(kv, "="); ok {
			c.At.a.setEnv(k, v)
		} else {
			c.At.a.unsetEnv(k)
		}
	}
	return nil
}
