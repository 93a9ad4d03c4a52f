//go:build !linux

package snapshot

// Boot returns "": a run of the host's kernel has no name here.
func Boot() string { return "" }
