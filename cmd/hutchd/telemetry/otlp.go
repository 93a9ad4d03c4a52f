package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"hutch/fs"
)

// scope names what our spans are from.
const scope = "hutch/cmd/hutchd"

// maxWaiting is how many spans wait for the collector at most; the next are lost.
const maxWaiting = 2048

// Send begins to send spans and metrics where the environment says, in the
// variables of OpenTelemetry (OTEL_EXPORTER_OTLP_ENDPOINT and those beside
// it). Without them it does nothing.
func (t *Telemetry) Send(ctx context.Context) error {
	otel.SetLogger(logr.FromSlogHandler(t.log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.log.Warn("telemetry", "err", err) }))
	what, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "hutchd"), attribute.String("service.version", fs.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return errors.Join(t.sendSpans(ctx, what), t.sendMetrics(ctx, what))
}

func (t *Telemetry) sendSpans(ctx context.Context, what *resource.Resource) error {
	if on, err := wanted("TRACES"); !on {
		return err
	}
	to, err := otlptracehttp.New(ctx)
	if err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	n := &account{log: t.log, what: "spans"}
	batches := sdk.NewBatchSpanProcessor(spanExporter{to, n}, sdk.WithMaxQueueSize(maxWaiting))
	opt := []sdk.TracerProviderOption{
		sdk.WithResource(what), sdk.WithIDGenerator(generator{}), sdk.WithSpanProcessor(spanQueue{batches, n}),
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		opt = append(opt, sdk.WithSampler(sdk.AlwaysSample())) // a guest does not say what is not traced
	}
	p := sdk.NewTracerProvider(opt...)
	t.tracer = p.Tracer(scope)
	t.senders = append(t.senders, p)
	t.Add(n.metrics)
	return nil
}

func (t *Telemetry) sendMetrics(ctx context.Context, what *resource.Resource) error {
	if on, err := wanted("METRICS"); !on {
		return err
	}
	to, err := otlpmetrichttp.New(ctx)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	n := &account{log: t.log, what: "metrics"}
	read := metric.NewPeriodicReader(metricExporter{to, n}, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(t.registry))))
	t.senders = append(t.senders, metric.NewMeterProvider(metric.WithResource(what), metric.WithReader(read)))
	t.Add(n.metrics)
	return nil
}

// wanted tells whether the environment has a signal, TRACES or METRICS, sent.
func wanted(signal string) (bool, error) {
	of := func(name string) string { // of the signal, or of all
		if v := os.Getenv("OTEL_EXPORTER_OTLP_" + signal + "_" + name); v != "" {
			return v
		}
		return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	variable := "OTEL_" + signal + "_EXPORTER"
	switch exporter := os.Getenv(variable); exporter {
	case "none":
		return false, nil
	case "otlp":
	case "":
		if of("ENDPOINT") == "" {
			return false, nil
		}
	default:
		return false, fmt.Errorf("%w: %s is %q: want otlp or none", fs.ErrInvalid, variable, exporter)
	}
	if err := checkEndpoint(of("ENDPOINT")); err != nil {
		return false, err
	}
	if p := of("PROTOCOL"); p != "" && p != "http/protobuf" {
		return false, fmt.Errorf("%w: OTEL_EXPORTER_OTLP_PROTOCOL is %q: want http/protobuf, and a collector's port for it, mostly 4318", fs.ErrUnsupported, p)
	}
	for _, prefix := range []string{"", signal + "_"} {
		for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			if err := checkFile("OTEL_EXPORTER_OTLP_" + prefix + name); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// maxFile is how long a file of certificates or of a key may be.
const maxFile = 1 << 20

// checkFile refuses a file that the exporters would not come to the end of: they
// read it whole, whatever it is. Files of /proc say size 0 and may have no end.
func checkFile(variable string) error {
	path := strings.TrimSpace(os.Getenv(variable))
	if path == "" {
		return nil
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", variable, err)
	case !fi.Mode().IsRegular() || fi.Size() == 0 || fi.Size() > maxFile:
		return fmt.Errorf("%w: %s is %q: want a file of 1 to %d bytes", fs.ErrInvalid, variable, path, maxFile)
	}
	return nil
}

// checkEndpoint refuses what the exporters would take for another place.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if text == "" || err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	return fmt.Errorf("%w: OTEL_EXPORTER_OTLP_ENDPOINT is %q: want a URL as http://127.0.0.1:4318", fs.ErrInvalid, text)
}

// An account counts what became of the spans, or of the rounds of metrics, for
// a collector, and logs when it begins and ends to fail.
type account struct {
	log  *slog.Logger
	what string

	waiting, sent, lost atomic.Int64
	failing             atomic.Bool
}

// admit counts one more that is to be sent, or that is lost.
func (a *account) admit() bool {
	if a.waiting.Add(1) <= maxWaiting {
		return true
	}
	a.settle(1, &a.lost)
	return false
}

func (a *account) settle(n int, as *atomic.Int64) {
	a.waiting.Add(int64(-n))
	as.Add(int64(n))
}

// exported counts n that were sent, or were not because of err.
func (a *account) exported(n int, err error) {
	as := &a.sent
	if err != nil {
		as = &a.lost
	}
	a.settle(n, as)
	switch was := a.failing.Swap(err != nil); {
	case err != nil && !was:
		a.log.Warn("the OTLP collector does not answer", "for", a.what, "err", err)
	case err == nil && was:
		a.log.Info("the OTLP collector answers again", "for", a.what, "lost", a.lost.Load())
	}
}

func (a *account) metrics() []Metric {
	name := "hutch_otlp_" + a.what + "_total"
	return []Metric{
		{name, Counter, a.what + " for the OTLP collector", float64(a.sent.Load()), []string{"result", "sent"}},
		{name, Counter, a.what + " for the OTLP collector", float64(a.lost.Load()), []string{"result", "lost"}},
	}
}

// A spanQueue passes on no more spans than there is room for behind it.
type spanQueue struct {
	sdk.SpanProcessor
	account *account
}

func (q spanQueue) OnEnd(s sdk.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && q.account.admit() {
		q.SpanProcessor.OnEnd(s)
	}
}

// A spanExporter keeps the account of another, and its errors.
type spanExporter struct {
	sdk.SpanExporter
	account *account
}

func (e spanExporter) ExportSpans(ctx context.Context, list []sdk.ReadOnlySpan) error {
	e.account.exported(len(list), e.SpanExporter.ExportSpans(ctx, list))
	return nil
}

// A metricExporter does so for rounds of metrics.
type metricExporter struct {
	metric.Exporter
	account *account
}

func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.account.waiting.Add(1)
	e.account.exported(1, e.Exporter.Export(ctx, m))
	return nil
}
