package tree

import (
	"time"

	"hutch/cmd/hutchd/telemetry"
)

// metrics gives all metrics in Prometheus' text format.
func metrics(c call) (string, error) { return c.At.s.cfg.Telemetry.Text() }

// gauges returns the metrics that are asked for when they are read.
func (s *Server) gauges() []telemetry.Metric {
	list := []telemetry.Metric{
		{Name: "hutch_uptime_seconds", Kind: telemetry.Gauge, Help: "time since the service started", Value: time.Since(s.began).Seconds()},
		{Name: "hutch_errors_total", Kind: telemetry.Counter, Help: "errors that clients got", Value: float64(s.errors.Load())},
		{Name: "hutch_execs_total", Kind: telemetry.Counter, Help: "commands started", Value: float64(s.Count.Execs.Load())},
		{Name: "hutch_guest_connections_refused_total", Kind: telemetry.Counter, Help: "connections of guests for which there was no room", Value: float64(s.Count.Refused.Load())},
		{Name: "hutch_event_bytes_total", Kind: telemetry.Counter, Help: "bytes of events told", Value: float64(s.Events.Size())},
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
			list = append(list, telemetry.Metric{
				Name: "hutch_mcp_calls_total", Kind: telemetry.Counter, Help: "MCP calls by what became of them",
				Value: float64(d.n), Labels: []string{"vm", v.Name(), "decision", d.decision},
			})
		}
	}
	for state, n := range states {
		list = append(list, telemetry.Metric{Name: "hutch_vms", Kind: telemetry.Gauge, Help: "VMs by state", Value: float64(n), Labels: []string{"state", state}})
	}
	return append(list,
		telemetry.Metric{Name: "hutch_mcp_sessions", Kind: telemetry.Gauge, Help: "MCP sessions of guests", Value: float64(sessions)},
		telemetry.Metric{Name: "hutch_mcp_pending_bytes", Kind: telemetry.Gauge, Help: "bytes of messages that MCP sessions hold", Value: float64(pending)})
}
