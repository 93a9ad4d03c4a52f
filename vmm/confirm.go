package vmm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"hutch/fs"
	"hutch/profiles"
)

// outward are the keys of a config by which a machine reaches what is not its own. Whoever
// made an archive may have set them as whoever unpacks it would not.
var outward = []string{"profile", "net", "mount", "kernel"}

// reaches returns the keys of outward that c sets to something that not every VM has.
func reaches(c Config) (keys []string) {
	for _, key := range outward {
		if v := c.Value(key); v != "" && v != profiles.BuiltIn.Config.Value(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Confirm lets the VM have what its archive says of it.
func (v *VM) Confirm(ctx context.Context) error {
	return v.do(ctx, func() error { return v.confirm(outward...) })
}

// confirm notes that somebody here has set the keys, or agreed to them.
func (v *VM) confirm(keys ...string) error {
	if len(v.look().Unconfirmed) == 0 {
		return nil
	}
	return v.store(true, func(s *seen) {
		s.Unconfirmed = slices.DeleteFunc(slices.Clone(s.Unconfirmed), func(key string) bool { return slices.Contains(keys, key) })
	})
}

// confirmed refuses a VM that was unpacked and has keys that nobody here agreed to.
func (v *VM) confirmed() error {
	s := v.look()
	if len(s.Unconfirmed) == 0 {
		return nil
	}
	var says []string
	for _, key := range s.Unconfirmed {
		says = append(says, key+" "+plainText(s.config.Value(key)))
	}
	return fmt.Errorf("%w: the archive of vm %q gives it %s: write confirm to its ctl if it may have that, as by \"echo confirm | hutch 9p write vm/%[2]s/ctl\", or set what it is to have",
		fs.ErrNotPermitted, v.Name(), strings.Join(says, "; "))
}
