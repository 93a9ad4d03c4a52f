//go:build !linux

package boot

import (
	"os"
	"time"

	"hutch/fs"
)

// Booted says that this is no machine: those run Linux.
func Booted() bool { return false }

// A Machine is a virtual machine, from the inside.
type Machine struct {
	Group *os.File
}

// Up is for Linux.
func Up() (*Machine, error) { return nil, fs.ErrUnsupported }

// Spared says false.
func (*Machine) Spared(int) bool { return false }

// SetClock does nothing.
func (*Machine) SetClock(time.Time) error { return fs.ErrUnsupported }

// SetHostname does nothing.
func (*Machine) SetHostname(string) error { return fs.ErrUnsupported }

// Down ends the process.
func (*Machine) Down() { os.Exit(0) }

// Fail ends the process.
func Fail(error) { os.Exit(1) }
