package telemetry

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	place "hutch/aggd/trace"
)

// A span is what was done, as it is sent when it is over.
type span struct {
	name       string
	kind       trace.SpanKind
	began      time.Time
	took       time.Duration
	at         place.Context // none: in a trace of its own
	attributes []attribute.KeyValue
	failed     bool
}

// send hands a span to the SDK, if spans are sent.
func (t *Telemetry) send(s span) {
	if t.tracer == nil {
		return
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.at.Trace, SpanID: s.at.Parent, Remote: true})
	ctx := trace.ContextWithSpanContext(context.Background(), parent)
	if id := trace.SpanID(s.at.Span); id.IsValid() {
		ctx = context.WithValue(ctx, given{}, id)
	}
	for i, a := range s.attributes {
		if a.Value.Type() == attribute.STRING {
			s.attributes[i].Value = attribute.StringValue(plain(a.Value.AsString()))
		}
	}
	_, out := t.tracer.Start(ctx, plain(s.name), trace.WithTimestamp(s.began), trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes...))
	if s.failed {
		out.SetStatus(codes.Error, "")
	}
	out.End(trace.WithTimestamp(s.began.Add(s.took)))
}

// maxText is how much of a text goes with a span, in bytes.
const maxText = 256

// plain returns a text as a span can have it. Guests have a part in most of them,
// and one that is not UTF-8 would cost all that are sent with it.
func plain(text string) string {
	if len(text) > maxText {
		text = strings.Clone(text[:maxText]) // and the rest is not kept until it is sent
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// A generator makes the ids of spans, but for such as have one: servers were
// told it when the span began.
type generator struct{}

// given is the key of a span's id in the context that the SDK hands on.
type given struct{}

func (g generator) NewIDs(ctx context.Context) (id trace.TraceID, _ trace.SpanID) {
	rand.Read(id[:])
	return id, g.NewSpanID(ctx, id)
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if id, ok := ctx.Value(given{}).(trace.SpanID); ok {
		return id
	}
	rand.Read(id[:])
	return id
}
