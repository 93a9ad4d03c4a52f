package vmm

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// programs returns what the machine m began with.
func programs(m Machine) map[string]string {
	if k, ok := m.(Kept); ok {
		return k.Programs()
	}
	return nil
}

// SameFile says whether a program that was looked at is what it was then: was
// is nil if it was not looked at yet.
func SameFile(was, is fs.FileInfo) bool {
	return was != nil && os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// shortSum is how much of a sum people are shown.
const shortSum = 12

// kept returns the lines of status on the programs that the VM's machine began
// with: which they are, and whether one that starts now would have them too.
func (v *VM) kept(s seen) string {
	if len(s.Programs) == 0 {
		return ""
	}
	var now map[string]string
	if d, err := v.t.driver(s.Driver); err == nil {
		if k, ok := d.(Keeper); ok {
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
