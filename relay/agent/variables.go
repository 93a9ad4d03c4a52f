package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/fs"
)

// variables are what the host has changed of the environment of commands to
// come: what it set and, as nil, what it took away of the agent's own.
type variables map[string]*string

func (a *Agent) vmEnv() variables {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.env)
}

// setEnv sets a variable, or takes it away.
func (a *Agent) setEnv(name string, value *string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.env[name] = value
}

// readEnv returns the VM's variables as the control messages that set them.
func readEnv(c call) (string, error) {
	var b strings.Builder
	env := c.At.a.vmEnv()
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if v := env[k]; v != nil {
			fmt.Fprintf(&b, "env %s %s\n", fs.Quote(k), fs.Quote(*v))
		}
	}
	return b.String(), nil
}

// readVariables returns the VM's variables as writeVariables takes them.
func readVariables(c call) (string, error) {
	var b strings.Builder
	env := c.At.a.vmEnv()
	for _, k := range slices.Sorted(maps.Keys(env)) {
		b.WriteString(k)
		if v := env[k]; v != nil {
			b.WriteString("=" + *v)
		}
		b.WriteString("\x00")
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
			c.At.a.setEnv(k, &v)
		} else {
			c.At.a.setEnv(k, nil)
		}
	}
	return nil
}
