//go:build !linux

package ports

import "hutch/relay/line"

// openLine is for guests, which run Linux.
func openLine() (*line.Guest, error) { return nil, nil }
