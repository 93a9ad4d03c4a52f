package client

import (
	"fmt"
	"hutch/fs/ninep/wire"
	"os"
	"slices"
	"testing"
	"time"
)

// measure reports the percentiles of how long op takes.
func measure(b *testing.B, op func() error) {
	b.ReportAllocs()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

func BenchmarkStatusRead(b *testing.B) {
	_, addr := serve(b, 0)
	c := dial(b, addr)
	f, err := c.Open(b.Context(), wire.Path("status"), os.O_RDONLY)
	ok(b, err)
	defer f.Clunk()
	p := make([]byte, 4096)
	measure(b, func() error {
		_, err := f.ReadAt(b.Context(), Quick, p, 0)
		return err
	})
}

func BenchmarkOpenReadClose(b *testing.B) {
	_, addr := serve(b, 0)
	c := dial(b, addr)
	p := make([]byte, 4096)
	measure(b, func() error {
		f, err := c.Open(b.Context(), wire.Path("status"), os.O_RDONLY)
		if err != nil {
			return err
		}
		if _, err := f.ReadAt(b.Context(), Quick, p, 0); err != nil {
			return err
		}
		return f.Close(b.Context())
	})
}

func BenchmarkRead(b *testing.B) {
	for _, kib := range []int{4, 64, 128} {
		b.Run(fmt.Sprint(kib, "KiB"), func(b *testing.B) {
			tree, addr := serve(b, 0)
			tree.SetBig(1 << 40)
			c := dial(b, addr)
			f, err := c.Open(b.Context(), wire.Path("big"), os.O_RDONLY)
			ok(b, err)
			defer f.Clunk()
			p := make([]byte, kib<<10)
			b.SetBytes(int64(len(p)))
			measure(b, func() error {
				_, err := f.ReadAt(b.Context(), Quick, p, 0)
				return err
			})
		})
	}
}
