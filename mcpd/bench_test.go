package mcpd

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCall measures a tools/call from the guest's end of the connection:
// "file" answered by the endpoint itself, "echo" through the aggregator by a
// stdio server, "ping" by the session.
func BenchmarkCall(b *testing.B) {
	for _, bm := range []struct{ name, method, params string }{
		{"ping", "ping", "{}"},
		{"file", "tools/call", `{"name":"dir_create","arguments":{"path":"."}}`},
		{"echo", "tools/call", `{"name":"one__echo","arguments":{"text":"hello"}}`},
	} {
		for _, n := range []int{1, 10, 50, 200} {
			b.Run(fmt.Sprintf("%s/%d", bm.name, n), func(b *testing.B) { benchmark(b, n, bm.method, bm.params) })
		}
	}
}

func benchmark(b *testing.B, n int, method, params string) {
	st := newSite(b, nil, testServers("one"))
	g := st.hello(b, 1, `{}`)
	g.ok(method, params)
	payload := `{"jsonrpc":"2.0","id":%d,"method":"` + method + `","params":` + strings.ReplaceAll(params, "%", "%%") + `}`
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range n {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if m := <-g.send(fmt.Sprintf(payload, i)); m.Error != nil {
					b.Error(m.Error)
				}
				took[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	at := func(p float64) float64 { return float64(took[int(p*float64(len(took)-1))].Microseconds()) }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
