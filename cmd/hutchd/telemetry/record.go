package telemetry

import (
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	place "hutch/aggd/trace"
	"hutch/mcpd"
	"hutch/mcpd/ledger"
)

// Call is told of an MCP call that has its answer. Its span has the names of
// OpenTelemetry's conventions for MCP.
func (t *Telemetry) Call(vm string, c mcpd.Ended) {
	server := c.Server
	if c.Missing {
		server = "" // a name that the guest made up, as it may do without end
	}
	t.calls.WithLabelValues(server, c.Decision).Observe(c.Took.Seconds())
	if t.tracer == nil {
		return
	}
	s := span{
		name: c.Method, kind: trace.SpanKindServer, began: c.Began, took: c.Took,
		at: c.Trace, failed: c.Code != 0 || c.IsError,
		attributes: append(make([]attribute.KeyValue, 0, 12),
			attribute.String("mcp.method.name", c.Method), attribute.String("network.transport", "pipe"),
			attribute.String("hutch.vm.name", vm), attribute.String("hutch.decision", c.Decision)),
	}
	s.add("mcp.session.id", c.Session)
	s.add("mcp.protocol.version", c.Revision)
	s.add("jsonrpc.request.id", c.RequestID)
	s.add("hutch.policy.rule", c.Rule)
	s.add("hutch.mcp.server", server)
	if c.Name != "" && !c.Missing {
		s.name += " " + c.Name
	}
	if key := named[c.Method]; key != "" && !c.Missing {
		s.add(key, c.Name)
	}
	if c.Method == "tools/call" {
		s.add("gen_ai.operation.name", "execute_tool")
	}
	switch {
	case c.Code != 0:
		s.add("error.type", strconv.Itoa(c.Code))
		s.add("rpc.response.status_code", strconv.Itoa(c.Code))
	case c.IsError:
		s.add("error.type", "tool_error")
	}
	t.send(s)
}

// named says what the conventions call what a method is about.
var named = map[string]string{
	"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name", "resources/read": "mcp.resource.uri",
}

func (s *span) add(key, value string) {
	if value != "" {
		s.attributes = append(s.attributes, attribute.String(key, value))
	}
}

// rows says which rows of ledgers are spans, and what of a row goes with the
// span. What a guest may have put a secret into does not.
var rows = map[string]struct {
	name       string // of the span
	named      string // the column whose text it has after that
	kind       trace.SpanKind
	attributes [][2]string // columns, and what they are called there
}{
	ledger.Execs: {"exec", "", trace.SpanKindInternal, [][2]string{
		{"exec_id", "hutch.exec.id"}, {"source", "hutch.exec.source"}, {"pid", "process.pid"},
		{"exit_code", "process.exit.code"}, {"signal", "error.type"},
	}},
	ledger.Net: {"", "method", trace.SpanKindClient, [][2]string{
		{"method", "http.request.method"}, {"host", "server.address"}, {"port", "server.port"}, {"status", "http.response.status_code"},
		{"decision", "hutch.decision"}, {"rule", "hutch.policy.rule"}, {"bytes_sent", "http.request.size"}, {"bytes_received", "http.response.size"},
	}},
	ledger.Snapshots: {"", "event", trace.SpanKindInternal, [][2]string{
		{"name", "hutch.snapshot.name"}, {"files", "hutch.snapshot.files"}, {"bytes", "hutch.snapshot.bytes"}, {"copied", "hutch.snapshot.copied"},
	}},
}

// Row is told of a row that a VM's ledger gets.
func (t *Telemetry) Row(vm, table string, r ledger.Row) {
	took := duration(r["duration_ms"])
	if table == ledger.Execs {
		source, _ := r["source"].(string)
		t.execs.WithLabelValues(source).Observe(took.Seconds())
	}
	what, ok := rows[table]
	if _, timed := r["duration_ms"]; t.tracer == nil || !ok || !timed {
		return
	}
	s := span{
		name: what.name, kind: what.kind, took: took,
		attributes: []attribute.KeyValue{attribute.String("hutch.vm.name", vm)},
		failed:     r["error_message"] != nil || r["signal"] != nil || r["decision"] == "denied" || r["decision"] == "error",
	}
	s.began, _ = r["timestamp"].(time.Time)
	if table == ledger.Snapshots { // of which the row tells when they were done
		s.began = s.began.Add(-took)
	}
	switch at := r["trace_id"].(type) {
	case place.Context:
		s.at = at
	case string:
		s.at.Trace, _ = place.ParseID(at)
	}
	if what.named != "" {
		s.name += fmt.Sprint(r[what.named])
	}
	for _, a := range what.attributes {
		if v, ok := r[a[0]]; ok {
			s.attributes = append(s.attributes, value(a[1], v))
		}
	}
	t.send(s)
}

// Boot is told that a VM began to start, how long it took, and whether it runs.
func (t *Telemetry) Boot(vm, driver string, began time.Time, took time.Duration, runs bool) {
	if runs {
		t.boots.WithLabelValues(driver).Observe(took.Seconds())
	}
	t.send(span{
		name: "start", kind: trace.SpanKindInternal, began: began, took: took, failed: !runs,
		attributes: []attribute.KeyValue{attribute.String("hutch.vm.name", vm), attribute.String("hutch.vm.driver", driver)},
	})
}

// Commit is told how long a commit to a ledger took.
func (t *Telemetry) Commit(took time.Duration) { t.commits.Observe(took.Seconds()) }

// duration reads a column duration_ms as rows have it.
func duration(v any) time.Duration {
	switch v := v.(type) {
	case time.Duration:
		return v
	case float64:
		return time.Duration(v * float64(time.Millisecond))
	}
	return 0
}

func value(key string, v any) attribute.KeyValue {
	switch v := v.(type) {
	case int:
		return attribute.Int(key, v)
	case int64:
		return attribute.Int64(key, v)
	}
	return attribute.String(key, fmt.Sprint(v))
}
