package profiles

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"hutch/fs"
)

// A Config says what machine a VM wants, or what a profile says of machines.
// Its text is key value lines, of which the last of a key counts; blank lines
// and lines that start with # mean nothing. What is zero is not said.
type Config struct {
	Image    string
	Profile  string
	Driver   string
	Kernel   string // the file of a kernel; "": the driver's own
	Hostname string // "": the VM's name
	RAM      int64  // bytes; 0: no limit
	CPUs     float64
	PIDs     int
	Disk     int64         // bytes; 0: no limit
	Records  int64         // bytes
	Idle     time.Duration // 0: none
	TTL      time.Duration // 0: none
	Net      string
	Mounts   Mounts
	Snap     Ring   // automatic snapshots
	Undo     string // what can be undone: UndoCalls …
	UndoKeep int    // how many snapshots are kept for that
}

// MaxConfig is the size of the largest text of a config.
const MaxConfig = 64 << 10

// ParseConfig returns the meaning of text. Keys it does not have are unset.
func ParseConfig(text string) (Config, error) {
	var c Config
	if len(text) > MaxConfig {
		return c, fmt.Errorf("%w: config has %d bytes, at most %d", fs.ErrTooLarge, len(text), MaxConfig)
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value := fs.CutBlank(line)
		if err := c.Set(key, strings.TrimSpace(value)); err != nil {
			return Config{}, fmt.Errorf("config line %d: %w", i+1, err)
		}
	}
	return c, nil
}

// Set gives key the value v; an empty v unsets it. Mounts are added to those
// that are there.
func (c *Config) Set(key, v string) error {
	k := FindKey(key)
	if k == nil || k.In&InConfig == 0 {
		return UnknownKey(key)
	}
	if err := k.set(c.field(k), v); err != nil {
		return fmt.Errorf("%w: %s %w", fs.ErrInvalid, key, err)
	}
	return nil
}

// field returns the field that k sets.
func (c *Config) field(k *Key) any { return k.field(target{c: c}) }

// UnknownKey is the error of a key that no config has.
func UnknownKey(key string) error {
	var known []string
	for k := range configKeys {
		known = append(known, k.Name)
	}
	return fmt.Errorf("%w: unknown key %.64q: known are %s", fs.ErrInvalid, key, strings.Join(known, " "))
}

// All returns the keys that are set and their values, in the order of Keys.
func (c Config) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for k := range configKeys {
			if v := k.text(c.field(k)); v != "" && !yield(k.Name, v) {
				return
			}
		}
	}
}

// Value returns the value of key as Set takes it, "" if it is not set.
func (c Config) Value(key string) string {
	k := FindKey(key)
	return k.text(c.field(k))
}

// Text returns the keys that are set, one a line.
func (c Config) Text() string {
	var b strings.Builder
	for k, v := range c.All() {
		fmt.Fprintf(&b, "%s %s\n", k, v)
	}
	return b.String()
}

// A Layer is one place that says something of a machine.
type Layer struct {
	Source string // as people call it
	Config Config
}

// BuiltIn says what holds where nothing else says anything.
var BuiltIn = Layer{Source: "default", Config: builtIn()}

func builtIn() (c Config) {
	for k := range configKeys {
		if err := k.set(c.field(k), k.Default); err != nil {
			panic(err)
		}
	}
	return c
}

// An Effective is what holds of a machine: of each key what the first layer
// says that says anything.
type Effective struct {
	Config
	layers []Layer
}

// Resolve returns what layers say together, the first of which goes before
// the others.
func Resolve(layers ...Layer) Effective {
	e := Effective{layers: layers}
	for k := range configKeys {
		field := reflect.ValueOf(e.field(k)).Elem()
		for j := 0; j < len(layers) && field.IsZero(); j++ {
			field.Set(reflect.ValueOf(layers[j].Config.field(k)).Elem())
		}
	}
	return e
}

// Source returns the source of the layer that says what holds of key, "" if
// none does.
func (e Effective) Source(key string) string {
	for _, l := range e.layers {
		if l.Config.Value(key) != "" {
			return l.Source
		}
	}
	return ""
}
