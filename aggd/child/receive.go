package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// receive reads lines until the process closes its output.
func (r *run) receive(in *wire.Reader) {
	for {
		line, err := in.Read()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long): // of the request whose answer it was
			r.answer(long.ID, answer{Answer: unknown, err: fmt.Errorf("%w: the result: %w", fs.ErrIO, long)})
		case err != nil:
			return
		default:
			r.line(line)
		}
	}
}

// line takes a line, which is passed over once.
func (r *run) line(line []byte) {
	a := answer{line: line}
	var id []byte
	var n *wire.Notification
	var q *wire.ServerRequest
	err := rawjson.Object(line, rawjson.Deepest, func(name []byte, start, end int) (err error) {
		value := line[start:end]
		switch string(name) {
		case "id":
			id = value
		case "result":
			a.Result = value
		case "stateless":
			a.Stateless = true
		case "rpc_error":
			a.Error = value
		case "fate":
			a.Fate = wire.Fate(rawjson.String(value))
		case "error":
			a.err = fmt.Errorf("%w: %w", fs.ErrIO, errors.New(rawjson.String(value)))
		case "notification":
			err = json.Unmarshal(value, &n)
		case "request":
			err = json.Unmarshal(value, &q)
		}
		return err
	})
	switch {
	case err != nil:
		fmt.Fprintf(r.cfg.Log, "aggregator: a line of %d bytes: %v\n", len(line), err)
	case n != nil:
		r.notified(*n)
	case q != nil:
		r.asks(*q)
	default:
		r.answer(id, a)
	}
}

func (r *run) answer(id []byte, a answer) {
	n, ok := jsonrpc.Number(id)
	if !ok {
		return
	}
	if a.Error != nil {
		a.err = nil // which says the same
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pending[n]; p != nil {
		p.answer <- a
		delete(r.pending, n)
	}
}

// notified passes a notification on to whom it belongs.
func (r *run) notified(n wire.Notification) {
	if n.Method == "notifications/cancelled" && r.giveUp(n.Params) {
		return
	}
	progress := n.Method == "notifications/progress"
	if p := r.find(n.Call); p != nil {
		n.Owner = p.call.Owner
		if progress && p.call.Progress != nil {
			p.call.Progress(n.Params)
			return
		}
	} else if progress {
		return // which comes after the answer
	}
	r.cfg.Notify(n)
}

// giveUp cancels the answering of a server's request.
func (r *run) giveUp(params json.RawMessage) bool {
	rid, ok := jsonrpc.Number(rawjson.Get(params, "requestId"))
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel := r.asked[rid]
	if !ok || cancel == nil {
		return false
	}
	cancel()
	return true
}

// asks has a server's request answered.
func (r *run) asks(q wire.ServerRequest) {
	if p := r.find(q.Call); p != nil {
		q.Owner = p.call.Owner
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.asked[q.RID] = cancel
	r.mu.Unlock()
	r.tasks.Go(func() {
		result, rpcError := r.cfg.Request(ctx, q)
		cancel()
		r.mu.Lock()
		delete(r.asked, q.RID)
		r.mu.Unlock()
		r.reply(q.RID, result, rpcError)
	})
}

func (r *run) reply(rid uint64, result, rpcError json.RawMessage) {
	if len(result) == 0 && len(rpcError) == 0 {
		rpcError = jsonrpc.Errorf(jsonrpc.CodeInternal, "no answer").Raw()
	}
	id := rid | 1<<63 // whose answer nobody waits for
	var long *wire.TooLong
	if err := r.request(id, wire.Reply, wire.ReplyParams{RID: rid, Result: result, Error: rpcError}); errors.As(err, &long) {
		rpcError = jsonrpc.Errorf(jsonrpc.CodeInternal, "the answer is too long").Raw()
		r.request(id, wire.Reply, wire.ReplyParams{RID: rid, Error: rpcError})
	}
}
