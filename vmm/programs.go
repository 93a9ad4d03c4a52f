package vmm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// programs returns what the machine m began with.
func programs(m Machine) map[string]string {
	if k, ok := m.(MachinePrograms); ok {
		return k.Programs()
	}
	return nil
}

// shortSum is how much of a sum people are shown.
const shortSum = 12

// programLines returns the lines of status on the programs that the VM's machine began
// with: which they are, and whether one that starts now would have them too.
func (v *VM) programLines(s seen) string {
	if len(s.Programs) == 0 {
		return ""
	}
	var now map[string]string
	if d, err := v.t.driver(s.Driver); err == nil {
		if k, ok := d.(DriverPrograms); ok {
			now, _ = k.Programs() // why there are none, the next start tells
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Programs)) {
		sum, word := s.Programs[name], "replaced"
		if now[name] == sum {
			word = "current"
		}
		fmt.Fprintf(&b, "%s %s %s\n", name, sum[:min(shortSum, len(sum))], word)
	}
	return b.String()
}
