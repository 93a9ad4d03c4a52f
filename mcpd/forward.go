package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// forward returns the step that sends the call to its server, with the member
// of its params set to the server's own name for what it is about.
func (c *call) forward(member int) step {
	return func(ctx context.Context) (json.RawMessage, *Error) {
		return c.send(ctx, c.server, c.message.Method, c.message.params.with(member, c.own))
	}
}

// send makes the request of a server and waits for its answer.
func (c *call) send(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, *Error) {
	if d := c.session.e.rules.Load().servers[server].CallTimeout; d > 0 && (method == "tools/call" || method == "tasks/result") {
		// aggd keeps to this limit as well, with an error of its own.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(d), &overdue{time.Duration(d)})
		defer cancel()
	}
	if c.stateless() {
		params = c.ours(params)
	}
	switch {
	case !c.stateless() || c.client.key == "" || c.task != nil:
		return c.reach(ctx, wire.Call{Server: server, Method: method, Params: params, Owner: c.askedBy(), Progress: c.progress})
	case c.exchange == nil:
		c.exchange = c.exchanging(func(x *exchange) (json.RawMessage, *Error) {
			return c.reach(x.ctx, wire.Call{Server: server, Method: method, Params: params, Owner: x, Progress: x.progress})
		})
	}
	return c.exchange.await(ctx)
}

// reach makes the request by way of the aggregator, on the call's connection and as a
// part of its trace.
func (c *call) reach(ctx context.Context, request wire.Call) (json.RawMessage, *Error) {
	aggregator, err := c.session.e.child()
	if err != nil {
		return nil, c.unanswered(ctx, wire.NotSent, err)
	}
	c.upstream.Store(&request.Server)
	defer c.upstream.Store(nil)
	request.Client, request.Params = c.connection(), trace.Put(request.Params, c.trace)
	params := request.Params
	answer, rerr := c.request(ctx, aggregator, request)
	for round := 1; round < maxRounds; round++ {
		urls := c.urlsAsked(rerr)
		if len(urls) == 0 {
			break
		}
		if err := c.openURLs(ctx, request, urls, rerr); err != nil {
			return nil, err
		}
		answer, rerr = c.request(ctx, aggregator, request)
	}
	if rerr == nil && !answer.Stateless && c.stateless() {
		answer.Stateless, rerr = asksClient(answer.Result) // out of turn, but the client would do it
	}
	if rerr != nil || !answer.Stateless {
		return answer.Result, rerr
	}
	return c.bridge(ctx, request.Server, answer.Result, func(more []byte) (json.RawMessage, *Error) {
		request.Params = joinMembers(more, rawjson.Delete(params, "inputResponses", "requestState"))
		answer, err := c.request(ctx, aggregator, request)
		return answer.Result, err
	})
}

// request makes one request of a server.
func (c *call) request(ctx context.Context, aggregator *child.Child, request wire.Call) (wire.Answer, *Error) {
	done, err := c.session.e.guard(request.Server)
	if err != nil {
		return wire.Answer{}, c.unanswered(ctx, wire.NotSent, err)
	}
	answer, err := aggregator.Call(ctx, request)
	done((err != nil || isFate(answer.Error, wire.NotSent, wire.Unknown)) && c.ctx.Err() == nil) // else the client gave up
	switch {
	case err != nil:
		return answer, c.unanswered(ctx, answer.Fate, err)
	case answer.Error != nil:
		told, why := c.session.e.hide(answer.Error)
		if why != nil {
			return answer, why
		}
		return answer, jsonrpc.Received(told)
	case answer.Result == nil:
		answer.Result = json.RawMessage(`{}`)
	}
	var why *Error
	answer.Result, why = c.session.e.hide(answer.Result)
	return answer, why
}

// ours returns the params of a request that speaks for itself as one of the
// endpoint's: what it says of its client is for the endpoint, which the server is
// told of as its own revision has it. Servers of 2026-07-28 know no task that is asked
// for, and one of an older server would be none to the client.
func (c *call) ours(params json.RawMessage) json.RawMessage {
	params = rawjson.Delete(params, paramNames[pTask])
	return rawjson.Set(params, rawjson.Delete(c.meta.raw, jsonrpc.MetaRevision, jsonrpc.MetaClientInfo, jsonrpc.MetaCapabilities), "_meta")
}

// isFate reports whether an error object tells of one of the fates. It may be from a
// server that is an endpoint itself.
func isFate(err json.RawMessage, fates ...wire.Fate) bool {
	data := rawjson.Get(err, "data")
	return data != nil && slices.ContainsFunc(fates, func(f wire.Fate) bool { return bytes.Equal(data, f.Data()) })
}

// unanswered is the error for a request that its server has not answered.
func (c *call) unanswered(ctx context.Context, fate wire.Fate, err error) *Error {
	failed := c.failed(ctx, err)
	failed.Data = fate.Data()
	return failed
}

// failed is the error for a call that came to nothing on the way.
func (c *call) failed(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	what := c.message.Method
	if what == "tools/call" {
		what = "tool call"
	}
	return failure(jsonrpc.CodeInternal, "%s failed: %s", what, c.session.e.redact(err.Error()))
}

// ended is the error for a call whose context ended.
func ended(ctx context.Context) *Error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errTimeout) {
		return failure(jsonrpc.CodeTimeout, "%s", cause)
	}
	return failure(jsonrpc.CodeInternal, "%s", cause)
}

// progress passes a progress notification of the call's server on to the guest.
func (c *call) progress(params json.RawMessage) {
	if c.ctx.Err() != nil {
		return
	}
	params, why := c.session.e.hide(params)
	if why != nil {
		return
	}
	if params = c.session.e.told(tellsProgress, func() *policy.Event { return c.question(nil) }, params); params != nil {
		c.session.notify("notifications/progress", params)
	}
}
