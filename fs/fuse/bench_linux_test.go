package fuse

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// measure runs op for each iteration and reports how long the middle one
// and the slowest of a hundred took.
func measure(b *testing.B, op func() error) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	us := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3
	}
	b.ReportMetric(us(0.50), "p50-µs")
	b.ReportMetric(us(0.99), "p99-µs")
}

func BenchmarkReadOpenStatus(b *testing.B) {
	s := serving(b)
	fd, err := unix.Open(s.path("status"), unix.O_RDONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(fd)
	p := make([]byte, 4096)
	measure(b, func() error {
		_, err := unix.Pread(fd, p, 0)
		return err
	})
}

func BenchmarkReadStatus(b *testing.B) {
	s := serving(b)
	p := make([]byte, 4096)
	measure(b, func() error {
		fd, err := unix.Open(s.path("status"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Read(fd, p)
		return err
	})
}

func BenchmarkStat(b *testing.B) {
	s := serving(b)
	var st unix.Stat_t
	measure(b, func() error { return unix.Stat(s.path("status"), &st) })
}

func BenchmarkWriteCtl(b *testing.B) {
	s := serving(b)
	measure(b, func() error {
		fd, err := unix.Open(s.path("ctl"), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, 0o666)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte("start\n"))
		return err
	})
}

// listLong does what ls -l does.
func listLong(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if _, err := e.Info(); err != nil {
			return err
		}
	}
	return err
}

func BenchmarkListLongMade100(b *testing.B) {
	s := serving(b)
	measure(b, func() error { return listLong(s.path("many")) })
}

func BenchmarkListLongHost100(b *testing.B) {
	s := serving(b)
	for i := range 100 {
		os.WriteFile(filepath.Join(s.work, string(rune('a'+i%26))+string(rune('a'+i/26))), nil, 0o644)
	}
	measure(b, func() error { return listLong(s.path("work")) })
}

// The same file, read through the workspace and beside it, and what the one
// is of the other.
func BenchmarkWorkspaceRead(b *testing.B) {
	s := serving(b)
	const size, piece = 256 << 20, 128 << 10
	host := filepath.Join(s.work, "big")
	f, err := os.Create(host)
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, piece)
	for range size / piece {
		f.Write(p)
	}
	f.Close()
	all := func(path string) time.Duration {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
		start := time.Now()
		for {
			n, err := unix.Read(fd, p)
			if err != nil {
				b.Fatal(err)
			}
			if n == 0 {
				return time.Since(start)
			}
		}
	}
	all(host)
	var beside, through []time.Duration
	for b.Loop() {
		beside = append(beside, all(host))
		through = append(through, all(s.path("work/big")))
	}
	slices.Sort(beside)
	slices.Sort(through)
	bm, tm := beside[len(beside)/2], through[len(through)/2]
	b.ReportMetric(size/tm.Seconds()/(1<<30), "GiB/s")
	b.ReportMetric(float64(bm)/float64(tm), "of-native")
}
