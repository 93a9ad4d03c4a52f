package tree

import (
	"time"

	"hutch/cmd/hutchd/gateway"
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
	vms, servers := map[string]int{}, map[string]int{}
	var gateways []*gateway.Gateway
	for _, v := range s.List() {
		vms[string(v.State())]++
		gateways = append(gateways, v.Gateway)
	}
	for _, v := range s.workloads.Servers() {
		servers[string(v.State())]++
	}
	gateways = append(gateways, s.workloads.Gateways()...)
	sessions, pending := 0, 0
	for _, g := range gateways {
		sessions += g.MCP.Sessions()
		pending += g.MCP.Pending()
		n := g.MCP.Count()
		for _, d := range []struct {
			decision string
			n        int64
		}{{"allowed", n.Allowed}, {"denied", n.Denied}, {"error", n.Failed}} {
			list = append(list, telemetry.Metric{
				Name: "hutch_mcp_calls_total", Kind: telemetry.Counter, Help: "MCP calls by what became of them",
				Value: float64(d.n), Labels: []string{"vm", g.Whose(), "decision", d.decision},
			})
		}
	}
	for _, of := range []struct {
		name, help string
		states     map[string]int
	}{{"hutch_vms", "VMs by state", vms}, {"hutch_servers", "MCP servers of servers/ by state", servers}} {
		for state, n := range of.states {
			list = append(list, telemetry.Metric{Name: of.name, Kind: telemetry.Gauge, Help: of.help, Value: float64(n), Labels: []string{"state", state}})
		}
	}
	return append(list,
		telemetry.Metric{Name: "hutch_mcp_sessions", Kind: telemetry.Gauge, Help: "MCP sessions of guests", Value: float64(sessions)},
		telemetry.Metric{Name: "hutch_mcp_pending_bytes", Kind: telemetry.Gauge, Help: "bytes of messages that MCP sessions hold", Value: float64(pending)})
}
