//go:build !linux

package fs

import "os"

func cutFront(f *os.File, n int64) (int64, error) { return rewrite(f, n) }
