//go:build !linux

package aggd

// Harden does nothing here: what Linux gives up has no counterpart.
func Harden() error { return nil }
