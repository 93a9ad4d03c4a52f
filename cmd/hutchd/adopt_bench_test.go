//go:build linux

package main_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAdopt kills hutchd with VMs that run, and measures how long the
// next one takes until it serves the tree, and until a command has run in one.
func BenchmarkAdopt(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := serve(b, false)
			for i := range n {
				s.vm(fmt.Sprint("vm", i))
			}
			var served, answered time.Duration
			for b.Loop() {
				s.signal(syscall.SIGKILL)
				began := time.Now()
				if err := s.tryStart(); err != nil {
					b.Fatal(err)
				}
				served += time.Since(began)
				if out, status := s.sh("vm0", "echo here"); out != "here\n" {
					b.Fatalf("%q, %s", out, status)
				}
				answered += time.Since(began)
			}
			b.ReportMetric(float64(served.Milliseconds())/float64(b.N), "ms-to-served")
			b.ReportMetric(float64(answered.Milliseconds())/float64(b.N), "ms-to-exec")
		})
	}
}
