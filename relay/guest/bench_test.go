package guest_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// BenchmarkExec is a whole `echo ok`: made, run, read, dropped.
func BenchmarkExec(b *testing.B) {
	p := newPair(b)
	var took []time.Duration
	i := 0
	for b.Loop() {
		begin := time.Now()
		e := p.exec(fmt.Sprint(i), "exec echo ok")
		if s := all(b, e, "stdout"); s != "ok\n" {
			b.Fatalf("got %q", s)
		}
		all(b, e, "wait")
		if err := e.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		i++
	}
	report(b, took)
}

// BenchmarkRoundTrip is a message to ctl that does next to nothing.
func BenchmarkRoundTrip(b *testing.B) {
	p := newPair(b)
	e := p.exec("t")
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := e.Ctl(b.Context(), "killonclose"); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkStdout(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := newPair(b)
			e := p.exec("t", "exec cat /dev/zero")
			out := open(b, e, "stdout", os.O_RDONLY)
			buf := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := io.ReadFull(out, buf); err != nil {
					b.Fatal(err)
				}
			}
			e.Remove(b.Context())
		})
	}
}
