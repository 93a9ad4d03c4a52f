package alone

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// BenchmarkCall has one call after the other made of a server, directly and through
// the aggregator.
func BenchmarkCall(b *testing.B) {
	const tool = `{"name":"text","inputSchema":{"type":"object"}}`
	b.Run("direct", func(b *testing.B) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"ALONE_SERVER=well", "ALONE_TOOLS=" + tool}
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err1 != nil || err2 != nil || cmd.Start() != nil {
			b.Fatal("cannot start")
		}
		defer cmd.Wait()
		defer in.Close()
		lines := bufio.NewReader(out)
		measure(b, func() {
			fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"text","arguments":{}}}`)
			if _, err := lines.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("through", func(b *testing.B) {
		c := open(b, Config{}, `{"k": `+server(b, "well", tool)+`}`)
		c.call("k:text")
		measure(b, func() {
			c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:text","arguments":{}}}`)
			c.next()
		})
	})
}

// measure tells the median too, which what else the machine does changes least.
func measure(b *testing.B, call func()) {
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		call()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
}
