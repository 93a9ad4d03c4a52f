package tree

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// A Metric is one line of metrics.
type Metric struct {
	Name  string // with labels
	Kind  string // counter or gauge
	Help  string
	Value float64
}

// metrics gives the counters in Prometheus' text format.
func metrics(c call) (string, error) {
	s := c.At.s
	list := []Metric{
		{"hutch_uptime_seconds", "gauge", "time since the service started", time.Since(s.began).Seconds()},
		{"hutch_errors_total", "counter", "errors that clients got", float64(s.errors.Load())},
		{"hutch_execs_total", "counter", "commands started", float64(s.Count.Execs.Load())},
		{"hutch_guest_connections_refused_total", "counter", "connections of guests for which there was no room", float64(s.Count.Refused.Load())},
		{"hutch_goroutines", "gauge", "goroutines of hutchd", float64(runtime.NumGoroutine())},
		{"hutch_event_bytes_total", "counter", "bytes of events told", float64(s.Events.Size())},
	}
	states := map[string]int{}
	sessions, pending := 0, 0
	for _, v := range s.List() {
		states[string(v.State())]++
		sessions += v.MCP.Sessions()
		pending += v.MCP.Pending()
		n := v.MCP.Count()
		for _, d := range []struct {
			decision string
			n        int64
		}{{"allowed", n.Allowed}, {"denied", n.Denied}, {"error", n.Failed}} {
			name := fmt.Sprintf("hutch_mcp_calls_total{vm=%q,decision=%q}", v.Name(), d.decision)
			list = append(list, Metric{name, "counter", "MCP calls by what became of them", float64(d.n)})
		}
	}
	for state, n := range states {
		list = append(list, Metric{fmt.Sprintf("hutch_vms{state=%q}", state), "gauge", "VMs by state", float64(n)})
	}
	list = append(list, Metric{"hutch_mcp_sessions", "gauge", "MCP sessions of guests", float64(sessions)})
	list = append(list, Metric{"hutch_mcp_pending_bytes", "gauge", "bytes of messages that MCP sessions hold", float64(pending)})
	if s.cfg.Gauges != nil {
		list = append(list, s.cfg.Gauges()...)
	}
	return prometheus(list), nil
}

func prometheus(list []Metric) string {
	var b strings.Builder
	told := map[string]bool{}
	for _, m := range list {
		base, _, _ := strings.Cut(m.Name, "{")
		if !told[base] {
			told[base] = true
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", base, m.Help, base, m.Kind)
		}
		fmt.Fprintf(&b, "%s %g\n", m.Name, m.Value)
	}
	return b.String()
}
