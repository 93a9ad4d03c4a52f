//go:build !linux

package layer

import (
	"os"

	"golang.org/x/sys/unix"
)

const capability = "security.capability"

func setCapability(*os.File, string) error { return nil }
func getCapability(*os.File) string        { return "" }

// Settle has what was written to dir's file system stay after a power cut.
func Settle(string) error { return unix.Sync() }

func clone(_, _ *os.File) error { return unix.ENOTSUP }
