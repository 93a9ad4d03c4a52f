package telemetry_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	spans "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"hutch/aggd/trace"
	"hutch/cmd/hutchd/telemetry"
	"hutch/mcpd"
	"hutch/mcpd/ledger"
)

// A collector keeps what it is sent by OTLP.
type collector struct {
	mu      sync.Mutex // guards what follows
	spans   []*v1.Span
	metrics []string
}

// collect has the environment name a collector, and returns it.
func collect(t *testing.T) *collector {
	c := new(collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var m spans.ExportTraceServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	case "/v1/metrics":
		var m metrics.ExportMetricsServiceRequest
		if proto.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, x := range sm.Metrics {
					c.metrics = append(c.metrics, x.Name)
				}
			}
		}
	}
}

// span returns the collected span called name, and its attributes as text.
func (c *collector) span(t *testing.T, name string) (*v1.Span, map[string]string) {
	t.Helper()
	for _, s := range c.spans {
		if s.Name == name {
			attributes := map[string]string{}
			for _, a := range s.Attributes {
				attributes[a.Key] = strings.Trim(strings.SplitN(a.Value.String(), ":", 2)[1], `"`)
			}
			return s, attributes
		}
	}
	t.Fatalf("no span %q among %v", name, c.spans)
	return nil, nil
}

// isAt says whether a span is at the place at.
func isAt(s *v1.Span, at trace.Context) bool {
	return bytes.Equal(s.TraceId, at.Trace[:]) && bytes.Equal(s.SpanId, at.Span[:]) && bytes.Equal(s.ParentSpanId, at.Parent[:])
}

func newTelemetry(t *testing.T, log io.Writer) *telemetry.Telemetry {
	t.Helper()
	tel := telemetry.New(slog.New(slog.NewTextHandler(log, nil)))
	if err := tel.Send(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tel
}

// call is a call's place under a guest's, and command one's that the call runs.
var (
	guest, _ = trace.Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	call     = guest.Child()
	command  = call.Child()
)

func TestSpans(t *testing.T) {
	c := collect(t)
	tel := newTelemetry(t, io.Discard)
	began := time.Now().Add(-time.Second)
	tel.Call("dev", mcpd.Ended{
		Method: "tools/call", Server: "github", Name: "github__search", RequestID: "7", Session: "3", Revision: "2025-11-25",
		Decision: "allowed", Rule: "rules.a", Began: began, Took: 300 * time.Millisecond, IsError: true, Trace: call,
	})
	tel.Call("dev", mcpd.Ended{Method: "tools/call", Name: "made\nup", Missing: true, Decision: "denied", Began: began, Code: -32602, Trace: trace.New().Child()})
	tel.Row("dev", ledger.Execs, ledger.Row{
		"timestamp": began, "exec_id": "t", "command": "exec secret", "duration_ms": 2 * time.Second, "source": "tree", "exit_code": 3, "trace_id": command,
	})
	tel.Row("dev", ledger.Net, ledger.Row{"timestamp": began, "method": "GET", "host": "a.test", "port": 443, "path": "/secret", "decision": "denied", "duration_ms": 1.5, "trace_id": guest.ID()})
	tel.Row("dev", ledger.Snapshots, ledger.Row{"timestamp": began, "event": "snapshot", "name": "a", "duration_ms": time.Millisecond})
	tel.Row("dev", ledger.Snapshots, ledger.Row{"timestamp": began, "event": "dropped", "name": "a"})
	tel.Boot("dev", "gvisor", began, time.Second, false)
	tel.Close()
	tel.Close()

	s, a := c.span(t, "tools/call github__search")
	if !isAt(s, call) || s.Kind != v1.Span_SPAN_KIND_SERVER || s.Status.Code != v1.Status_STATUS_CODE_ERROR {
		t.Errorf("call: %v", s)
	}
	if d := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano); d != 300*time.Millisecond || int64(s.StartTimeUnixNano) != began.UnixNano() {
		t.Errorf("call: it took %v from %d", d, s.StartTimeUnixNano)
	}
	for k, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "github__search", "gen_ai.operation.name": "execute_tool", "mcp.session.id": "3",
		"mcp.protocol.version": "2025-11-25", "jsonrpc.request.id": "7", "error.type": "tool_error", "hutch.vm.name": "dev", "hutch.policy.rule": "rules.a",
	} {
		if a[k] != want {
			t.Errorf("call: %s is %q, want %q", k, a[k], want)
		}
	}
	if s, a := c.span(t, "tools/call"); a["error.type"] != "-32602" || a["gen_ai.tool.name"] != "" || len(s.ParentSpanId) != 0 {
		t.Errorf("call of nothing: %v", s)
	}
	if s, a := c.span(t, "exec"); a["process.exit.code"] != "3" || a["hutch.exec.id"] != "t" || strings.Contains(s.String(), "secret") || !isAt(s, command) {
		t.Errorf("exec: %v", s)
	}
	if s, a := c.span(t, "GET"); a["server.address"] != "a.test" || s.Status.Code != v1.Status_STATUS_CODE_ERROR || strings.Contains(s.String(), "secret") || [16]byte(s.TraceId) != guest.Trace {
		t.Errorf("request: %v", s)
	}
	if s, _ := c.span(t, "snapshot"); int64(s.EndTimeUnixNano) != began.UnixNano() {
		t.Errorf("snapshot: %v", s)
	}
	c.span(t, "start")
	if len(c.spans) != 6 {
		t.Errorf("%d spans: %v", len(c.spans), c.spans)
	}
	for _, want := range []string{"hutch_mcp_call_duration_seconds", "hutch_exec_duration_seconds", "hutch_otlp_spans_total", "go_goroutines"} {
		if !slices.Contains(c.metrics, want) {
			t.Errorf("no metric %s among %q", want, c.metrics)
		}
	}
}

// What a guest says is cut, and what is not UTF-8 of it costs no other span.
func TestSpansOfAnyText(t *testing.T) {
	c := collect(t)
	tel := newTelemetry(t, io.Discard)
	tel.Call("dev", mcpd.Ended{Method: "ping", Decision: "allowed", Began: time.Now()})
	tel.Call("dev", mcpd.Ended{Method: "\xff" + strings.Repeat("x", 1<<20), RequestID: "\"\xff\"", Decision: "denied", Began: time.Now()})
	tel.Row("dev", ledger.Net, ledger.Row{"timestamp": time.Now(), "method": "\xff", "host": "\xff", "duration_ms": 1.5})
	tel.Close()
	c.span(t, "ping")
	if len(c.spans) != 3 || len(c.spans[1].Name) > 300 {
		t.Errorf("%d spans: %.1000s", len(c.spans), c.spans)
	}
}

// TestDeadCollector has nobody listen: what is lost is counted, and logged once.
func TestDeadCollector(t *testing.T) {
	s := httptest.NewServer(nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	s.Close()
	var log strings.Builder
	tel := newTelemetry(t, &log)
	for range 5000 {
		tel.Call("dev", mcpd.Ended{Method: "ping", Decision: "allowed", Began: time.Now()})
	}
	tel.Close()
	text, err := tel.Text()
	if err != nil || !strings.Contains(text, `hutch_otlp_spans_total{result="lost"} 5000`) || !strings.Contains(text, `hutch_otlp_spans_total{result="sent"} 0`) {
		t.Errorf("%v: %s", err, text)
	}
	if n := strings.Count(log.String(), "does not answer\" for=spans"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

func TestEnvironment(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		env   map[string]string
		sends bool
		err   string
	}{
		{"nothing", nil, false, ""},
		{"an endpoint", map[string]string{endpoint: "http://127.0.0.1:1"}, true, ""},
		{"one for metrics", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1/v1/metrics"}, false, ""},
		{"disabled", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		{"none", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{"otlp alone", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{"another", map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "OTEL_TRACES_EXPORTER"},
		{"no scheme", map[string]string{endpoint: "127.0.0.1:14318"}, false, "want a URL"},
		{"another scheme", map[string]string{endpoint: "ftp://127.0.0.1/"}, false, "want a URL"},
		{"grpc", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, false, "want http/protobuf"},
		{"a device", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE": " /dev/zero "}, false, "want a file of"},
		{"a pipe", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": fifo}, false, "want a file of"},
		{"no file", map[string]string{endpoint: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": fifo + "x"}, false, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			tel := telemetry.New(slog.New(slog.DiscardHandler))
			err := tel.Send(t.Context())
			if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			text, _ := tel.Text()
			if got := strings.Contains(text, "hutch_otlp_spans_total"); got != c.sends {
				t.Errorf("sends spans: %v", got)
			}
			tel.Close()
		})
	}
}

// BenchmarkCall is what telling of a call costs.
func BenchmarkCall(b *testing.B) {
	x := mcpd.Ended{Method: "tools/call", Server: "s", Name: "s__t", RequestID: "7", Session: "3", Decision: "allowed", Began: time.Now(), Trace: call}
	b.Run("metrics", func(b *testing.B) {
		tel := telemetry.New(slog.New(slog.DiscardHandler))
		b.ReportAllocs()
		for b.Loop() {
			tel.Call("dev", x)
		}
	})
	b.Run("dead collector", func(b *testing.B) {
		b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		tel := telemetry.New(slog.New(slog.DiscardHandler))
		if err := tel.Send(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			tel.Call("dev", x)
		}
		b.StopTimer()
		tel.Close()
	})
}
