package alone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"hutch/aggd/child"
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// What a client may have under way at once, and how much longer than its params a
// request may be.
const (
	maxInFlight = 1024
	maxPending  = 64 << 20 // bytes of requests
	maxEnvelope = 4 << 10
)

// errClosed is why requests are given up at the end.
var errClosed = errors.New("the aggregator is ending")

// errCancelled is why a request is given up of which the client wants no answer.
var errCancelled = errors.New("cancelled")

// A face is what the client sees.
type face struct {
	cfg      Config
	names    *names
	tools    *shelf
	child    *child.Child
	out      io.Closer
	lines    *wire.Writer       // to out
	lost     context.CancelFunc // ends it when the client reads no more
	ctx      context.Context
	cancel   context.CancelCauseFunc
	ran      atomic.Bool    // the aggregator has run
	batches  atomic.Bool    // the client speaks a revision that has them
	requests sync.WaitGroup // being answered
	pending  atomic.Int64   // bytes of them, and of answers that wait for others

	mu       sync.Mutex // guards what follows
	inFlight map[string]context.CancelCauseFunc
}

func newFace(cfg Config, out io.WriteCloser, lost context.CancelFunc) *face {
	n := newNames(cfg.Servers, cfg.Separator, cfg.Safe)
	f := &face{
		cfg: cfg, names: n, tools: newShelf(n),
		out: out, lines: wire.NewWriter(out), lost: lost,
		inFlight: make(map[string]context.CancelCauseFunc),
	}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	return f
}

// write writes a line, and returns when the client has it or is gone.
func (f *face) write(line []byte) {
	if f.lines.Write(line) != nil {
		f.lost()
	}
}

// defined returns the servers that the aggregator is to connect, and tells of those
// that have a fault.
func (f *face) defined() (list []wire.Server) {
	for _, s := range f.cfg.Servers {
		if s.Wrong != nil {
			fmt.Fprintf(f.cfg.Log, "aggd: server %s: %v\n", s.Name, s.Wrong)
			continue
		}
		list = append(list, s.Server)
	}
	return list
}

// refuse answers the requests of servers: the client is not asked anything.
func refuse(_ context.Context, q wire.ServerRequest) (result, rpcError json.RawMessage) {
	return nil, jsonrpc.Errorf(jsonrpc.CodeMethod, "this client offers no %s", q.Method).Raw()
}

// read takes line after line until in ends.
func (f *face) read(in *wire.Reader) error {
	for {
		line, err := in.Read()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			f.answer(nil, long.ID, nil, jsonrpc.Errorf(jsonrpc.CodeInvalid, "invalid request: %v; -max-request allows more", long))
		case errors.Is(err, io.EOF), f.ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("reading requests: %w", err)
		default:
			f.take(line)
		}
	}
}

// take takes one message, or a batch of them.
func (f *face) take(line []byte) {
	if line[0] != '[' || !f.batches.Load() {
		f.message(line, nil)
		return
	}
	elements := rawjson.Elements(line)
	if err := rawjson.Check(line); err != nil || len(elements) == 0 || len(elements) > jsonrpc.MaxBatch {
		f.answer(nil, nil, nil, jsonrpc.Errorf(jsonrpc.CodeInvalid, "invalid request: a batch is JSON, and has 1 to %d messages", jsonrpc.MaxBatch))
		return
	}
	b := &jsonrpc.Batch{Keep: f.keep}
	b.Expect() // what is no request: that it is read
	for _, element := range elements {
		f.message(element, b)
	}
	f.answered(b.Answer(nil))
}

// keep counts the bytes of answers that wait for the rest of their batch.
func (f *face) keep(n int) bool {
	if f.pending.Add(int64(n)) <= maxPending || n < 0 {
		return true
	}
	f.pending.Add(-int64(n))
	return false
}

// message takes one message, of a batch where that is not nil.
func (f *face) message(line []byte, b *jsonrpc.Batch) {
	q, wrong := jsonrpc.ParseStrict(line)
	switch {
	case wrong != nil:
		b.Expect()
		f.answer(b, q.ID, nil, wrong)
	case q.Method == "": // an answer, and nothing was asked
	case q.ID == nil:
		f.notification(q)
	default:
		b.Expect()
		f.request(q, b, len(line))
	}
}

// notification takes a notification of the client.
func (f *face) notification(q jsonrpc.Message) {
	if q.Method != "notifications/cancelled" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if cancel := f.inFlight[string(rawjson.Get(q.Params, "requestId"))]; cancel != nil {
		cancel(errCancelled)
	}
}

// request has a request answered, on a goroutine of its own if that can take long.
func (f *face) request(q jsonrpc.Message, b *jsonrpc.Batch, size int) {
	m, ok := methods[q.Method]
	if !ok || m.all && !f.cfg.All {
		f.answer(b, q.ID, nil, jsonrpc.Errorf(jsonrpc.CodeMethod, "Method not found: %.80s", q.Method))
		return
	}
	if m.quick != nil {
		result, wrong := m.quick(f, q)
		f.answer(b, q.ID, result, wrong)
		return
	}
	ctx, wrong := f.begin(q, size)
	if wrong != nil {
		f.answer(b, q.ID, nil, wrong)
		return
	}
	go func() {
		defer f.requests.Done()
		result, wrong := m.answer(f, ctx, q)
		cause := context.Cause(ctx)
		f.end(q, size)
		if errors.Is(cause, errCancelled) {
			f.answered(b.Answer(nil))
			return
		}
		f.answer(b, q.ID, result, wrong)
	}()
}

// begin counts a request in, unless there are too many, or it is the end.
func (f *face) begin(q jsonrpc.Message, size int) (context.Context, *jsonrpc.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ctx.Err() != nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeLost, "%v", errClosed)
	case f.inFlight[string(q.ID)] != nil:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalid, "invalid request: the id %.40s is of a request under way", q.ID)
	case len(f.inFlight) >= maxInFlight:
		return nil, jsonrpc.Errorf(jsonrpc.CodeBusy, "too many requests in flight: %d", maxInFlight)
	case f.pending.Load() > maxPending:
		return nil, jsonrpc.Errorf(jsonrpc.CodeBusy, "too many bytes of requests in flight: %d", maxPending)
	}
	f.requests.Add(1)
	f.pending.Add(int64(size))
	ctx, cancel := context.WithCancelCause(f.ctx)
	f.inFlight[string(q.ID)] = cancel
	return ctx, nil
}

// end counts a request out.
func (f *face) end(q jsonrpc.Message, size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight[string(q.ID)](nil)
	delete(f.inFlight, string(q.ID))
	f.pending.Add(-int64(size))
}

// answer writes the answer to a request, or has the batch do that.
func (f *face) answer(b *jsonrpc.Batch, id, result json.RawMessage, wrong *jsonrpc.Error) {
	line := jsonrpc.Response(id, result, nil)
	if wrong != nil {
		line = jsonrpc.Response(id, nil, wrong.Raw())
	}
	f.answered(b.Answer(line))
}

// answered writes a line, if there is one yet.
func (f *face) answered(line []byte) {
	if line != nil {
		f.write(line)
	}
}
