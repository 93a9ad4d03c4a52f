// Package telemetry counts and times what hutchd does: as metrics, which the
// file metrics of the tree shows, and, where the environment names a collector
// of OpenTelemetry, as spans and metrics that go there by OTLP over HTTP.
//
// Nothing waits for a collector. What one that is slow or gone misses is
// counted, and counts are all that it costs.
package telemetry

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel/trace"
)

// A Telemetry is told what was done. Its methods can be called at once.
type Telemetry struct {
	registry *prometheus.Registry
	log      *slog.Logger
	calls    *prometheus.HistogramVec
	execs    *prometheus.HistogramVec
	boots    *prometheus.HistogramVec
	commits  prometheus.Histogram

	tracer  trace.Tracer // nil: no spans are sent
	senders []sender
}

// A sender sends in the background until it is shut down.
type sender interface {
	Shutdown(context.Context) error
}

// Buckets in seconds, from what a call of a tool of our own takes to what a
// person waits for.
var (
	callBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	execBuckets   = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	bootBuckets   = []float64{.05, .1, .15, .2, .3, .5, 1, 2, 3, 5, 10, 30, 60}
	commitBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1, 5}
)

// New returns a Telemetry that sends nothing; see Send.
func New(log *slog.Logger) *Telemetry {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	t := &Telemetry{
		registry: prometheus.NewRegistry(), log: log,
		calls: histogram("hutch_mcp_call_duration_seconds", "time that MCP calls took, without waiting for a person", callBuckets, "server", "decision"),
		execs: histogram("hutch_exec_duration_seconds", "time that commands took", execBuckets, "source"),
		boots: histogram("hutch_vm_boot_duration_seconds", "time from the start of a VM to its running", bootBuckets, "driver"),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hutch_ledger_commit_duration_seconds", Help: "time that commits to ledgers took", Buckets: commitBuckets,
		}),
	}
	t.registry.MustRegister(t.calls, t.execs, t.boots, t.commits,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return t
}

// Close sends what is left to be sent, for a second at most.
func (t *Telemetry) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range t.senders {
		all.Go(func() { s.Shutdown(ctx) }) // what it could not send is counted and logged
	}
	all.Wait()
	t.senders = nil
}

// A Metric is a number that is asked for when metrics are read.
type Metric struct {
	Name   string
	Kind   Kind
	Help   string
	Value  float64
	Labels []string // names and values in turn
}

// A Kind says how a Metric changes.
type Kind = prometheus.ValueType

// The kinds of metrics: one only grows.
const (
	Counter = prometheus.CounterValue
	Gauge   = prometheus.GaugeValue
)

// Add has the metrics that ask returns be among those that are read.
func (t *Telemetry) Add(ask func() []Metric) { t.registry.MustRegister(asked(ask)) }

type asked func() []Metric

// Describe says nothing: which metrics there are is known when they are asked for.
func (asked) Describe(chan<- *prometheus.Desc) {}

func (ask asked) Collect(to chan<- prometheus.Metric) {
	for _, m := range ask() {
		var names, values []string
		for i := 0; i < len(m.Labels); i += 2 {
			names, values = append(names, m.Labels[i]), append(values, m.Labels[i+1])
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(m.Name, m.Help, names, nil), m.Kind, m.Value, values...)
	}
}

// Text returns all metrics in Prometheus' text format 0.0.4.
func (t *Telemetry) Text() (string, error) {
	families, err := t.registry.Gather()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
