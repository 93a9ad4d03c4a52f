package pack

import (
	"fmt"
	"strings"

	"hutch/fs"
)

// A Choice is what is wanted of a part that goes by itself where that does no harm.
type Choice byte

// The choices.
const (
	Maybe Choice = iota
	Yes
	No
)

// Options say what goes into an archive, and what of one is unpacked.
type Options struct {
	Ledger, Logs, Snapshots bool
	Memory                  Choice
}

// Usual is what goes into an archive of which nothing is said.
func Usual() Options { return Options{Ledger: true} }

// All is what is unpacked of an archive of which nothing is said.
func All() Options { return Options{Ledger: true, Logs: true, Snapshots: true} }

// Words are those that Set takes; with a '-' in front each takes its part away.
var Words = []string{"ledger", "logs", "snapshots", "memory"}

// Set changes the options as words say.
func (o *Options) Set(words []string) error {
	for _, w := range words {
		name, without := strings.CutPrefix(w, "-")
		switch name {
		case "ledger":
			o.Ledger = !without
		case "logs":
			o.Logs = !without
		case "snapshots":
			o.Snapshots = !without
		case "memory":
			if o.Memory = Yes; without {
				o.Memory = No
			}
		default:
			return fmt.Errorf("%w: an archive has no part %.40q: known are %s, and - before each", fs.ErrInvalid, w, strings.Join(Words, " "))
		}
	}
	return nil
}
