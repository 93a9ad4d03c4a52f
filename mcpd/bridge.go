package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// What a server of 2026-07-28 may ask for before it has a result.
const (
	maxRounds   = 16                     // results in a row that ask for something
	maxInputs   = 64                     // requests in one of them
	roundsPause = 100 * time.Millisecond // after one that asks for nothing
)

// bridge makes what a server of 2026-07-28 answered a result for the call's client,
// or for the policy: what it asks of the client is decided.
func (c *call) bridge(ctx context.Context, server string, result json.RawMessage, again func(more []byte) (json.RawMessage, *Error)) (json.RawMessage, *Error) {
	for round := 1; ; round++ {
		asks, err := asksClient(result)
		switch {
		case err != nil:
			return nil, err
		case !c.takesTasks() && rawjson.GetString(result, resultNames[rType]) == "task":
			return nil, failure(jsonrpc.CodeInternal, "the server made a task of the call, which its client did not ask for and cannot ask about")
		case !asks && c.stateless():
			return result, nil
		case !asks:
			return rawjson.Delete(result, resultNames[rType], resultNames[rTTL], resultNames[rScope]), nil
		case c.stateless():
			return c.handOver(ctx, server, result)
		case round == maxRounds:
			return nil, failure(jsonrpc.CodeInternal, "the server asks for more again and again")
		}
		var more []byte
		more, err = c.fulfil(ctx, server, result)
		if err == nil {
			result, err = again(more)
		}
		if err != nil {
			return nil, err
		}
	}
}

// The members by which a result asks the client for something, and those of what
// it asks for.
var (
	askNames   = [...]string{"resultType", "inputRequests", "requestState"}
	inputNames = [...]string{"method", "params"}
)

// asksClient says whether a result asks the client for something. One that
// two readers may read differently is refused.
func asksClient(result json.RawMessage) (bool, *Error) {
	if result = bytes.TrimLeft(result, " \t\r\n"); len(result) == 0 || result[0] != '{' {
		return false, nil
	}
	var at [len(askNames)]rawjson.Span
	if err := rawjson.Members(result, askNames[:], at[:]); err != nil {
		return false, ambiguous(err)
	}
	return rawjson.String(at[0].Of(result)) == "input_required", nil
}

func ambiguous(err error) *Error {
	return failure(jsonrpc.CodeInternal, "the answer of the server: %s", err)
}

// inputs visits what a result asks for.
func inputs(result json.RawMessage, visit func(key, method string, params json.RawMessage) *Error) (err *Error) {
	asked, n := rawjson.Get(result, askNames[1]), 0
	if len(asked) > 0 && asked[0] != '{' {
		return failure(jsonrpc.CodeInternal, "the server asks, and its inputRequests are no object")
	}
	rawjson.Walk(asked, func(key []byte, start, end int) {
		if n++; n > maxInputs && err == nil {
			err = failure(jsonrpc.CodeInternal, "the server asks for more than %d things at once", maxInputs)
		}
		if err == nil {
			q, at := asked[start:end], [len(inputNames)]rawjson.Span{}
			if bad := rawjson.Members(q, inputNames[:], at[:]); bad != nil {
				err = ambiguous(bad)
				return
			}
			err = visit(string(key), rawjson.String(at[0].Of(q)), at[1].Of(q))
		}
	})
	return err
}

// fulfil asks an older client for what a result asks for, and returns the members
// of the params of the next request that have the answers.
func (c *call) fulfil(ctx context.Context, server string, result json.RawMessage) ([]byte, *Error) {
	b := []byte(`{"inputResponses":{`)
	err := inputs(result, func(key, method string, params json.RawMessage) *Error {
		answer, err := c.session.e.inquire(ctx, c.asking(server, method, numbered(method, params)))
		b = append(append(rawjson.AppendString(b, key), ':'), answer...)
		b = append(b, ',')
		return err
	})
	if err != nil {
		return nil, err
	}
	if bytes.HasSuffix(b, []byte("{")) && !pause(ctx, roundsPause) {
		return nil, ended(ctx)
	}
	b = append(bytes.TrimSuffix(b, []byte(",")), "},"...)
	if state := rawjson.Get(result, "requestState"); state != nil {
		b = append(append(append(b, `"requestState":`...), state...), ',')
	}
	return b, nil
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// asking is a server's request that belongs to the call.
func (c *call) asking(server, method string, params json.RawMessage) wire.ServerRequest {
	return wire.ServerRequest{Notification: wire.Notification{
		Client: c.client.key, Server: server, Method: method, Params: params, Owner: c.askedBy(),
	}}
}

// A handover is a client of 2026-07-28, which comes back with what it is asked for.
type handover struct{ *client }

func (handover) ask(context.Context, wire.ServerRequest) (json.RawMessage, *Error) { return nil, nil }

// handOver returns the result as the client may have it: with what the policy lets
// the server ask.
func (c *call) handOver(ctx context.Context, server string, result json.RawMessage) (json.RawMessage, *Error) {
	asked := result
	result = tellApart(result)
	err := inputs(asked, func(key, method string, params json.RawMessage) *Error {
		r := c.asking(server, method, params)
		q := c.session.e.inquiry(r, handover{c.client}, c.session)
		if _, err := q.run(ctx); err != nil {
			return err
		}
		if !bytes.Equal(q.request.Params, params) {
			result = rawjson.Set(result, q.request.Params, "inputRequests", key, "params")
		}
		return nil
	})
	return result, err
}

// answers are the members by which the answers to what servers ask are known.
var answers = []struct{ method, member string }{
	{"elicitation/create", "action"}, {"roots/list", "roots"}, {"sampling/createMessage", "role"}, {"sampling/createMessage", "model"},
}

// answered returns what a value may be the answer to.
func answered(value []byte) (methods []string) {
	seen := ""
	for _, a := range answers {
		if a.method != seen && rawjson.Get(value, a.member) != nil {
			methods, seen = append(methods, a.method), a.method
		}
	}
	if methods == nil {
		return []string{"elicitation/create", "roots/list", "sampling/createMessage"}
	}
	return methods
}

// decideAnswers decides whether the server may have the answers that the request
// brings to what it asked.
func (c *call) decideAnswers() *Error {
	given := c.message.params.get(pInputResponses)
	e := c.session.e
	if len(given) == 0 || !c.stateless() || !e.rules.Load().judges {
		return nil
	}
	changed, n := given, 0
	var err *Error
	rawjson.Walk(given, func(key []byte, start, end int) {
		if n++; n > maxInputs && err == nil {
			err = failure(jsonrpc.CodeParams, "more than %d inputResponses", maxInputs)
		}
		if err != nil {
			return
		}
		value := json.RawMessage(given[start:end])
		for _, method := range answered(value) {
			if err != nil {
				return
			}
			v, why := e.decide(c.ctx, &policy.Event{
				On: policy.OnResponse, VM: e.cfg.VM(), Profile: e.cfg.Profile(), Session: c.session.id, Principal: c.who, Process: c.process,
				Server: c.server, Method: method, Known: true, Answer: value,
			}, &c.row)
			if v.denied || v.asked || v.action == policy.Observe {
				c.verdict = v
			}
			if err = why; v.rewritten != nil {
				value = v.rewritten
				changed = rawjson.Set(changed, value, string(key))
			}
		}
	})
	if err != nil || bytes.Equal(changed, given) {
		return err
	}
	raw := c.message.params.splice(pInputResponses, changed)
	if c.message.params, err = scanParams(raw); err != nil {
		return err
	}
	c.rewritten = raw
	return nil
}
