package vmm

import (
	"fmt"
	"strings"

	"hutch/fs"
)

const maxName = 64

// CheckName says what is wrong with name as the name of a VM: 1 to 64
// letters, digits, dots, underscores and dashes, of which the first is no dot.
func CheckName(name string) error { return checkWord("VM", name) }

// checkWord says what is wrong with name as the name of a thing.
func checkWord(thing, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a %s's name is empty", fs.ErrInvalid, thing)
	case len(name) > maxName:
		return fmt.Errorf("%w: a %s's name has at most %d bytes, this one %d", fs.ErrTooLong, thing, maxName, len(name))
	case name[0] == '.':
		return fmt.Errorf("%w: %s name %q starts with a dot", fs.ErrInvalid, thing, name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !nameRune(r) }); i >= 0 {
		return fmt.Errorf("%w: %s name %q has other characters than letters, digits, '.', '_' and '-'", fs.ErrInvalid, thing, name)
	}
	return nil
}

func nameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '.' || r == '_' || r == '-'
}
