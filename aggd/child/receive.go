package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// receive reads lines until the process closes its output.
func (r *run) receive(in *wire.Reader) {
	for {
		line, err := in.Read()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			r.tooLong(long)
		case err != nil:
			return
		case !json.Valid(line):
			fmt.Fprintf(r.cfg.Log, "aggregator: a line of %d bytes is not JSON\n", len(line))
		default:
			r.line(line)
		}
	}
}

func (r *run) line(line []byte) {
	if raw := rawjson.Get(line, "notification"); raw != nil {
		var n wire.Notification
		if json.Unmarshal(raw, &n) == nil {
			r.notified(n)
		}
		return
	}
	if raw := rawjson.Get(line, "request"); raw != nil {
		var q wire.ServerRequest
		if json.Unmarshal(raw, &q) == nil {
			r.asks(q)
		}
		return
	}
	id, err := strconv.ParseUint(string(rawjson.Get(line, "id")), 10, 64)
	if err != nil {
		return
	}
	r.answer(id, line)
}

func (r *run) answer(id uint64, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pending[id]; p != nil {
		p.answer <- line
		delete(r.pending, id)
	}
}

// tooLong answers the request whose answer was over the limit.
func (r *run) tooLong(e *wire.TooLong) {
	id, err := strconv.ParseUint(string(e.ID), 10, 64)
	if err != nil {
		return
	}
	line, err := rawjson.Encode(wire.Response{ID: id, Error: "the result: " + e.Error()})
	if err == nil {
		r.answer(id, line)
	}
}

// notified passes a notification on to whom it belongs.
func (r *run) notified(n wire.Notification) {
	if n.Method == "notifications/cancelled" && r.giveUp(n.Params) {
		return
	}
	if p := r.find(n.Call); p != nil {
		n.Owner = p.call.Owner
		if n.Method == "notifications/progress" && p.call.Progress != nil {
			p.call.Progress(n.Params)
			return
		}
	}
	r.cfg.Notify(n)
}

// giveUp cancels the answering of a server's request.
func (r *run) giveUp(params json.RawMessage) bool {
	rid, err := strconv.ParseUint(string(rawjson.Get(params, "requestId")), 10, 64)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel := r.asked[rid]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
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
		rpcError = json.RawMessage(`{"code":-32603,"message":"no answer"}`)
	}
	id := rid | 1<<63 // nobody waits for its answer
	line := make([]byte, 0, len(result)+len(rpcError)+96)
	line = append(line, `{"id":`...)
	line = strconv.AppendUint(line, id, 10)
	line = append(line, `,"method":"reply","params":{"rid":`...)
	line = strconv.AppendUint(line, rid, 10)
	if len(rpcError) > 0 {
		line = append(append(line, `,"error":`...), rawjson.Line(rpcError)...)
	} else {
		line = append(append(line, `,"result":`...), rawjson.Line(result)...)
	}
	line = append(line, "}}"...)
	if err := r.put(line); err != nil {
		r.request(id, wire.Reply, wire.ReplyParams{RID: rid, Error: json.RawMessage(`{"code":-32603,"message":"the answer is too long"}`)})
	}
}
