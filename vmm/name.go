package vmm

import (
	"fmt"
	"strings"

	"hutch/fs/node"
)

const maxName = 64

// CheckName says what is wrong with name as the name of a VM: 1 to 64
// letters, digits, dots, underscores and dashes, of which the first is no dot.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a VM's name is empty", node.ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("%w: a VM's name has at most %d bytes, this one %d", node.ErrTooLong, maxName, len(name))
	case name[0] == '.':
		return fmt.Errorf("%w: VM name %q starts with a dot", node.ErrInvalid, name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !nameRune(r) }); i >= 0 {
		return fmt.Errorf("%w: VM name %q has other characters than letters, digits, '.', '_' and '-'", node.ErrInvalid, name)
	}
	return nil
}

func nameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}
