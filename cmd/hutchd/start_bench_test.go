//go:build linux

package main_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// BenchmarkStart starts a service that knows 100 VMs, up to a tree that is
// served.
func BenchmarkStart(b *testing.B) {
	s := newService(b, false)
	if err := s.tryStart(); err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		s.mkdir(fmt.Sprint("vm/known", i))
	}
	s.signal(syscall.SIGTERM)
	for b.Loop() {
		if err := s.tryStart(); err != nil {
			b.Fatal(err)
		}
		c := s.dial()
		f, err := c.Open("vm/known99/status", os.O_RDONLY)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, f)
		b.StopTimer()
		c.Close()
		s.signal(syscall.SIGKILL)
		b.StartTimer()
	}
	os.Remove(filepath.Join(s.dir, "9p"))
}
