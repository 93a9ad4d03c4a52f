package mcpd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
)

func init() {
	otherServers["huge"] = func() int { return serveHuge(false) }
	otherServers["moody"] = func() int { return serveHuge(true) }
	otherServers["endless"] = func() int {
		for line := []byte(strings.Repeat("x", 1<<20)); ; {
			if _, err := os.Stdout.Write(line); err != nil {
				return 1
			}
		}
	}
}

const hugeTools = 60000

// serveHuge is a server of very many tools, which differ for each client where it is
// moody.
func serveHuge(moody bool) int {
	in := bufio.NewReader(os.Stdin)
	caps := ""
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		id, result := rawjson.Get(line, "id"), `{}`
		switch rawjson.GetString(line, "method") {
		case "initialize":
			if moody {
				caps = strings.ReplaceAll(string(rawjson.Get(line, "params", "capabilities")), `"`, "'")
			}
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"huge","version":"1"}}`
		case "tools/list":
			var b strings.Builder
			for i := range hugeTools {
				fmt.Fprintf(&b, `,{"name":"tool%d","description":"What tool %d does%s, in some words.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, i, i, caps)
			}
			result = `{"tools":[` + b.String()[1:] + `]}`
		}
		if id != nil {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
		}
	}
}

// peak returns the most memory that a process has had, in MiB.
func peak(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || m == nil {
		b.Skip("needs Linux: ", err)
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return float64(kb) / 1024
}

// BenchmarkLists measures how much memory lists take that many relays ask for at once:
// of a server of 60,000 tools beside one that never answers and one that sends a line
// without an end, with one set of client capabilities and with as many as there may be,
// and of a server whose list is another for each. The yardstick is one list as it is
// sent.
func BenchmarkLists(b *testing.B) {
	for _, bm := range []struct {
		server string
		sets   int
	}{{"huge", 1}, {"huge", maxGuestKeys}, {"moody", maxGuestKeys}} {
		b.Run(fmt.Sprintf("%s/sets=%d", bm.server, bm.sets), func(b *testing.B) {
			for b.Loop() {
				benchmarkLists(b, bm.server, bm.sets)
			}
		})
	}
}

func benchmarkLists(b *testing.B, server string, sets int) {
	servers := testServers(server, "hang", "endless")
	for i := range servers[1:] {
		servers[i+1].ConnectTimeout = wire.Duration(2 * time.Second)
	}
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	st := newSite(b, func(cfg *Config) { cfg.Settle = settleTime }, servers)
	began := time.Now()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { askLists(b, st, fmt.Sprintf(`{"sampling":{"set":%d}}`, i%sets), 19) })
	}
	all.Wait()
	one := askLists(b, st, `{"sampling":{"set":0}}`, 1)
	b.ReportMetric(float64(one)/(1<<20), "list-MiB")
	b.ReportMetric(peak(b, st.AggregatorPID()), "aggd-MiB")
	b.ReportMetric(peak(b, os.Getpid()), "host-MiB")
	b.ReportMetric(time.Since(began).Seconds(), "s/round")
	st.Endpoint.Close()
}

// askLists has a relay ask n times for the tools, each while the others are under way,
// and returns how much it was sent.
func askLists(b *testing.B, st *site, capabilities string, n int) (sent int64) {
	ours, theirs := socketPair(b)
	defer ours.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		st.Serve(b.Context(), theirs)
	}()
	w := frame.NewWriter(ours)
	ask := func(stream int, method, params string) {
		payload := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, stream, method, params)
		w.WriteFrame(frame.Frame{Version: frame.Version2, Stream: uint32(stream), Process: "agent", Payload: payload})
	}
	ask(1, "initialize", `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`,"clientInfo":{"name":"t","version":"1"}}`)
	for i := range n {
		ask(i+2, "tools/list", `{}`)
	}
	ours.(*net.UnixConn).CloseWrite()
	var head bytes.Buffer
	sent, _ = io.Copy(io.Discard, io.TeeReader(ours, &limited{&head}))
	<-served
	if !bytes.Contains(head.Bytes(), []byte("protocolVersion")) {
		b.Errorf("answered with %.300q", head.Bytes())
	}
	return sent
}

// limited keeps the beginning of what is written to it.
type limited struct{ b *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, 1000-l.b.Len()))])
	return len(p), nil
}
