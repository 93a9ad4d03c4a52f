package query

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/mcpd/ledger"
)

const benchCalls = 100_000

func filled(b *testing.B) *ledger.DB {
	db := newLedger(b)
	for range benchCalls {
		call(b, db, ledger.Call{Server: "github", Method: "tools/call", Tool: "search_issues", RequestID: "17",
			Request: []byte(`{"name":"github__search_issues","arguments":{"query":"is:open label:bug","page":3}}`),
			Process: "claude", BytesSent: 84, PolicyAction: "allow", PolicyRule: "default", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"},
			ledger.Outcome{Response: []byte(`{"content":[{"type":"text","text":"nothing found"}],"isError":false}`), BytesReceived: 68})
	}
	if err := db.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	return db
}

// average is what the statement count+avg does, in Go.
func average(b *testing.B, db *ledger.DB) {
	snapshot, err := db.Snapshot(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	rows, err := snapshot.Rows(context.Background(), 0, ledger.All, ledger.ByLine)
	if err != nil {
		b.Fatal(err)
	}
	n, sum := 0, 0.0
	for {
		more, err := rows.Next()
		if err != nil {
			b.Fatal(err)
		}
		if !more {
			break
		}
		n, sum = n+1, sum+float(rows.Record.Value(7))
	}
	if n != benchCalls || sum == 0 {
		b.Fatal(n, sum)
	}
}

// cpu returns the processor time that this process has had.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSQL measures statements over 100,000 calls, beside a loop in Go.
func BenchmarkSQL(b *testing.B) {
	db := filled(b)
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			f()
			var took []time.Duration
			began := cpu()
			for b.Loop() {
				start := time.Now()
				f()
				took = append(took, time.Since(start))
			}
			used := cpu() - began
			slices.Sort(took)
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
			b.ReportMetric(ms(used)/float64(len(took)), "cpu-ms/op")
		})
	}
	run("yardstick", func() { average(b, db) })
	for _, q := range []struct{ name, sql string }{
		{"nothing", "SELECT 1"},
		{"count+avg", "SELECT count(*), avg(duration_ms) FROM mcp_calls"},
		{"first", fmt.Sprintf("SELECT * FROM mcp_calls WHERE id > %d LIMIT 1", benchCalls*3/4)},
		{"last", "SELECT * FROM mcp_calls ORDER BY id DESC LIMIT 10"},
		{"group", "SELECT tool_name, count(*), avg(duration_ms) FROM mcp_calls GROUP BY tool_name"},
		{"like", "SELECT count(*) FROM mcp_calls WHERE request_preview LIKE '%label:%feature%'"},
		{"instr", "SELECT count(*) FROM mcp_calls WHERE instr(request_preview, 'label:feature')"},
		{"all", "SELECT * FROM mcp_calls"},
	} {
		run(q.name, func() { answer(b, one(db), q.sql) })
	}
}

// BenchmarkAppendScanned measures what durable appends lose while tables are
// scanned from end to end, over and over: rounds with and without, in turn.
func BenchmarkAppendScanned(b *testing.B) {
	db := filled(b)
	const writers, round = 16, 800
	rate := func() float64 {
		var all sync.WaitGroup
		start := time.Now()
		for range writers {
			all.Go(func() {
				for range round / writers {
					if err := db.Append(context.Background(), ledger.VMs, ledger.Row{"event": "bench", "text": "an append that waits until it is durable"}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		return round / time.Since(start).Seconds()
	}
	var alone, scanned, loss []float64
	for b.Loop() {
		alone = append(alone, rate())
		done, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-done:
					return
				default:
					answer(b, one(db), "SELECT count(*), avg(duration_ms) FROM mcp_calls")
				}
			}
		}()
		scanned = append(scanned, rate())
		close(done)
		<-ended
		loss = append(loss, 100*(1-scanned[len(scanned)-1]/alone[len(alone)-1]))
	}
	slices.Sort(alone)
	slices.Sort(scanned)
	slices.Sort(loss)
	b.ReportMetric(alone[len(alone)/2], "alone-rec/s")
	b.ReportMetric(scanned[len(scanned)/2], "scanned-rec/s")
	b.ReportMetric(loss[len(loss)/2], "p50-loss-%")
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// rss returns the memory that this process holds, in MiB; 0 where nobody knows.
func rss() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	m := resident.FindSubmatch(text)
	if m == nil {
		return 0
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return float64(kb) / 1024
}

// BenchmarkRunaway measures what statements without an end hold until they are
// ended, and after.
func BenchmarkRunaway(b *testing.B) {
	db := newLedger(b)
	const numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) "
	for _, q := range []struct{ name, sql string }{
		{"count", numbers + "SELECT count(*) FROM n"},
		{"sort", numbers + "SELECT x FROM n ORDER BY -x"},
		{"group", numbers + "SELECT x, count(*) FROM n GROUP BY x"},
		{"blobs", numbers + "SELECT sum(length(randomblob(60000))) FROM n"},
		{"answer", numbers + "SELECT x FROM n"},
	} {
		b.Run(q.name, func(b *testing.B) {
			before, most := rss(), 0.0
			for b.Loop() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					if s, err := new(Engine).Start(b.Context(), one(db), q.sql); err == nil {
						io.Copy(io.Discard, reader{s})
						s.Close()
					}
				}()
				tick := time.NewTicker(20 * time.Millisecond)
				for ended := false; !ended; {
					select {
					case <-done:
						ended = true
					case <-tick.C:
						most = max(most, rss())
					}
				}
				tick.Stop()
			}
			b.ReportMetric(most-before, "more-MiB")
			b.ReportMetric(rss()-before, "after-MiB")
		})
	}
}
