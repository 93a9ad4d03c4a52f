//go:build !linux

package pack

import (
	"fmt"
	"os"

	"hutch/fs"
)

func listAttributes(*os.File) []string             { return nil }
func getAttribute(*os.File, string) (string, bool) { return "", false }
func setAttribute(_ *os.File, _, _ string) error   { return nil }
func mkfifo(dir int, name string) error            { return unmade("a pipe") }
func whiteout(dir int, name string) error          { return unmade("the mark of a file that is gone") }
func unmade(what string) error {
	return fmt.Errorf("%w: %s cannot be made here", fs.ErrUnsupported, what)
}
