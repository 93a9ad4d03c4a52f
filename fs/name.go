package fs

import (
	"fmt"
	"net/url"
	"strings"
)

// MaxName is the length of the longest name of a file.
const MaxName = 255

// CheckName says why no file can be called name.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("%w: bad file name %.40q", ErrInvalid, name)
	case len(name) > MaxName:
		return ErrTooLong
	}
	return nil
}

// FileName returns the name of the file of a thing that may be called anything, by
// url.PathEscape. A name that is cut off at MaxName may be that of another thing, too.
func FileName(thing string) string {
	name := url.PathEscape(thing)
	if strings.Trim(name, ".") == "" { // "", "." and ".." are none
		name = "%2E" + strings.TrimPrefix(name, ".")
	}
	return name[:min(len(name), MaxName)]
}

const maxWord = 64

// CheckWord says what is wrong with name as the name that people give a thing:
// 1 to 64 letters, digits, dots, underscores and dashes, of which the first is
// no dot.
func CheckWord(thing, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: %s name is empty", ErrInvalid, thing)
	case len(name) > maxWord:
		return fmt.Errorf("%w: %s name has %d bytes: at most %d", ErrTooLong, thing, len(name), maxWord)
	case name[0] == '.':
		return fmt.Errorf("%w: %s name %q starts with a dot", ErrInvalid, thing, name)
	case strings.ContainsFunc(name, NotIn("._-")):
		return fmt.Errorf("%w: %s name %q has other characters than letters, digits, '.', '_' and '-'", ErrInvalid, thing, name)
	}
	return nil
}

// NotIn returns a test for what is no ASCII letter, no digit and none of others.
func NotIn(others string) func(rune) bool {
	return func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(others, c)
	}
}
