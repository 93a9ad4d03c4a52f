package child

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// BenchmarkHop measures what the aggregator adds to a call: the same echo server
// is asked directly and through a child, by 1, 8 and 32 callers at once.
func BenchmarkHop(b *testing.B) {
	for _, callers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("direct/c=%d", callers), func(b *testing.B) {
			d := openDirect(b)
			measure(b, callers, func() error {
				d.call(`{"name":"x","arguments":{"text":"hello"}}`)
				return nil
			})
		})
		b.Run(fmt.Sprintf("aggd/c=%d", callers), func(b *testing.B) {
			c, _ := begin(b, Config{Servers: []wire.Server{fake(b, "s")}})
			ctx := b.Context()
			call := wire.Call{Server: "s", Method: "tools/call", Params: json.RawMessage(`{"name":"x","arguments":{"text":"hello"}}`)}
			if _, err := c.Call(ctx, call); err != nil {
				b.Fatal(err)
			}
			measure(b, callers, func() error {
				_, err := c.Call(ctx, call)
				return err
			})
		})
	}
}

// BenchmarkLarge measures calls whose params and result are large.
func BenchmarkLarge(b *testing.B) {
	c, _ := begin(b, Config{Servers: []wire.Server{fake(b, "s")}})
	params := `{"name":"x","arguments":{"text":"` + strings.Repeat("hello\\n", 32<<10) + `"}}`
	b.SetBytes(int64(len(params)))
	measure(b, 1, func() error {
		_, err := c.Call(b.Context(), wire.Call{Server: "s", Method: "tools/call", Params: json.RawMessage(params)})
		return err
	})
}

func measure(b *testing.B, callers int, call func() error) {
	b.ResetTimer()
	all := make([][]time.Duration, callers)
	var each sync.WaitGroup
	for i := range callers {
		each.Go(func() {
			for range (b.N + callers - 1) / callers {
				began := time.Now()
				if err := call(); err != nil {
					b.Error(err)
					return
				}
				all[i] = append(all[i], time.Since(began))
			}
		})
	}
	each.Wait()
	b.StopTimer()
	took := slices.Concat(all...)
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}

// direct speaks with the echo server with nothing between.
type direct struct {
	mu      sync.Mutex
	last    int
	waiting map[int]chan []byte
	in      io.Writer
}

func openDirect(b *testing.B) *direct {
	cmd := exec.Command(self(b), "fake-server")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		b.Fatal("cannot start the server")
	}
	d := &direct{waiting: make(map[int]chan []byte), in: in}
	read := make(chan bool)
	go func() {
		defer close(read)
		lines := wire.NewReader(out, 1<<20)
		for {
			line, err := lines.Read()
			if err != nil {
				return
			}
			id, _ := strconv.Atoi(string(rawjson.Get(line, "id")))
			d.mu.Lock()
			d.waiting[id] <- line
			delete(d.waiting, id)
			d.mu.Unlock()
		}
	}()
	b.Cleanup(func() {
		in.Close()
		<-read
		cmd.Wait()
	})
	return d
}

func (d *direct) call(params string) []byte {
	d.mu.Lock()
	d.last++
	id := d.last
	answer := make(chan []byte, 1)
	d.waiting[id] = answer
	d.mu.Unlock()
	fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`+"\n", id, params)
	return <-answer
}
