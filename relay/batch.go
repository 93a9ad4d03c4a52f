package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// A part is a request of a batch, each of which goes to the host by itself.
type part struct {
	of   *jsonrpc.Batch
	over atomic.Bool // it is answered, or given up
}

// isBatch reports whether a line is a batch where there may be one.
func (r *relay) isBatch(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches && line[0] == '[' && json.Valid(line)
}

// agreed notes the revision that the answer to initialize says.
func (r *relay) agreed(answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = true
	r.batches = rawjson.GetString(answer, "result", "protocolVersion") == jsonrpc.Batching
}

// sendBatch sends the messages of a batch.
func (r *relay) sendBatch(ctx context.Context, line []byte) {
	elements := rawjson.Elements(line)
	if len(elements) == 0 || len(elements) > jsonrpc.MaxBatch {
		r.fail(nil, jsonrpc.CodeInvalid, fmt.Sprintf("invalid request: a batch of %d messages, from 1 to %d", len(elements), jsonrpc.MaxBatch))
		return
	}
	b := &jsonrpc.Batch{Keep: r.keep}
	messages := make([]message, len(elements))
	for i, element := range elements {
		m := parse(bytes.Clone(element))
		if m.kind == request || m.kind == opaque {
			m.part = &part{of: b}
			b.Expect()
		}
		messages[i] = m
	}
	for _, m := range messages {
		if m.method == "initialize" {
			r.answer(m.part, failure(m.id, jsonrpc.CodeInvalid, "invalid request: initialize stands in no batch"))
			continue
		}
		r.pass(ctx, m)
	}
}

// answer prints the answer to a request, or keeps it for its batch. No answer is
// one that will not come.
func (r *relay) answer(p *part, line []byte) {
	if p == nil {
		r.print(line)
		return
	}
	if p.over.Swap(true) {
		return
	}
	if whole := p.of.Answer(line); whole != nil {
		r.print(whole)
	}
}

// keep counts what the batches keep, of which there may be as much as of one
// message.
func (r *relay) keep(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept+n > r.limit {
		return false
	}
	r.kept += n
	return true
}

// giveUp notes that a request that the client cancels has no answer any more: the
// others of its batch do not wait for one.
func (l *link) giveUp(m *message) {
	id := rawjson.Get(m.line, "params", "requestId")
	if m.method != "notifications/cancelled" || id == nil {
		return
	}
	l.mu.Lock()
	var given []*part
	var alone uint32
	for stream, a := range l.pending {
		switch {
		case !bytes.Equal(a.id, id):
		case a.part != nil:
			given = append(given, a.part)
		case !a.first && a.own == nil && a.done == nil:
			alone = max(alone, stream)
		}
	}
	l.mu.Unlock()
	for _, p := range given {
		l.r.answer(p, nil)
	}
	if a, ok := l.waits(alone); ok { // which is not answered any more
		l.finished(alone, a)
	}
}
