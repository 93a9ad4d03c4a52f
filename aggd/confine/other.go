//go:build !linux

package confine

import "syscall"

// Attributes returns a session of its own: what Linux takes away has no
// counterpart here.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Enter does nothing here.
func Enter(int) error { return nil }

// Lacking says that all is.
func Lacking() []string { return []string{"all of it: this system is not Linux"} }

// State says that nothing confines the process.
func State(int) string { return "without user namespaces capabilities landlock seccomp" }
