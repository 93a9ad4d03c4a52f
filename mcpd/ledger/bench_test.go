package ledger

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

var benchCall = Call{
	Server: "github", Method: "tools/call", Tool: "search_issues", RequestID: "17", Decision: "allowed",
	Request: []byte(`{"name":"github__search_issues","arguments":{"query":"is:open label:bug","page":3}}`),
	Process: "claude", BytesSent: 84, PolicyAction: "allow", PolicyRule: "default", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
}

var benchOutcome = Outcome{
	Response:      []byte(`{"content":[{"type":"text","text":"nothing found"}],"isError":false}`),
	BytesReceived: 68,
}

// concurrently runs f b.N times in all from several goroutines, and reports
// the rate and how long the runs took.
func concurrently(b *testing.B, writers int, f func() error) {
	took := make([][]time.Duration, writers)
	var wg sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := w; i < b.N; i += writers {
				t := time.Now()
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				took[w] = append(took[w], time.Since(t))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	b.StopTimer()
	report(b, slices.Concat(took...), elapsed)
}

func report(b *testing.B, took []time.Duration, elapsed time.Duration) {
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[int(float64(len(took)-1)*p)].Nanoseconds()) / 1e3
	}
	b.ReportMetric(at(.5), "p50-µs")
	b.ReportMetric(at(.99), "p99-µs")
	b.ReportMetric(float64(len(took))/elapsed.Seconds(), "rec/s")
}

var writerCounts = []int{1, 16, 256}

// BenchmarkAppend measures durable records.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range writerCounts {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := open(b, temp(b), Options{})
			r := Row{"event": "tool.call", "state": "running", "text": "github.search_issues"}
			concurrently(b, writers, func() error { return db.Append(bg, VMs, r) })
		})
	}
}

// BenchmarkBegin measures durable calls that end at once: two records for each.
func BenchmarkBegin(b *testing.B) {
	for _, writers := range writerCounts {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := open(b, temp(b), Options{})
			concurrently(b, writers, func() error {
				id, err := db.beginWait(bg, benchCall)
				if err != nil {
					return err
				}
				return db.End(id, benchOutcome)
			})
		})
	}
}

// BenchmarkFollow measures how long after its End a call's line is read.
func BenchmarkFollow(b *testing.B) {
	db := open(b, temp(b), Options{})
	buf := make([]byte, 64<<10)
	var off int64
	concurrently(b, 1, func() error {
		id, err := db.beginWait(bg, benchCall)
		if err == nil {
			err = db.End(id, benchOutcome)
		}
		if err != nil {
			return err
		}
		n, err := db.Log(Calls).ReadAt(bg, buf, off, true)
		off += int64(n)
		return err
	})
}

func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		dir := b.TempDir()
		n := 0
		benchOpen(b, func() string { n++; return filepath.Join(dir, fmt.Sprint(n)) })
	})
	b.Run("100k", func(b *testing.B) {
		path := temp(b)
		db := open(b, path, Options{})
		for range 100000 {
			if err := db.Queue(bg, VMs, Row{"event": "started", "text": "some words of detail"}); err != nil {
				b.Fatal(err)
			}
		}
		db.Close()
		benchOpen(b, func() string { return path })
	})
}

func benchOpen(b *testing.B, path func() string) {
	var took []time.Duration
	start := time.Now()
	for b.Loop() {
		t := time.Now()
		db, err := Open(path(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(t))
		db.Close()
	}
	report(b, took, time.Since(start))
}
