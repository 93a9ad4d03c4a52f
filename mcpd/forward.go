package mcpd

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hutch/aggd/jsonrpc"
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
	e := c.session.e
	aggregator, err := e.child()
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	if d := e.rules.Load().servers[server].CallTimeout; d > 0 && method == "tools/call" {
		// aggd keeps to this limit as well, with an error of its own.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(d), &overdue{time.Duration(d)})
		defer cancel()
	}
	c.upstream.Store(&server)
	defer c.upstream.Store(nil)
	result, rpcError, err := aggregator.Call(ctx, wire.Call{
		Client: c.session.client.Load().key, Server: server, Method: method, Params: params,
		Owner: c, Progress: c.progress,
	})
	switch {
	case err != nil:
		return nil, c.failed(ctx, err)
	case rpcError != nil:
		return nil, jsonrpc.Received(rpcError)
	case result == nil:
		return json.RawMessage(`{}`), nil
	}
	return result, nil
}

// failed is the error for a call that came to nothing on the way.
func (c *call) failed(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if c.message.Method == "tools/call" {
		return failure(jsonrpc.CodeInternal, "tool call failed: %s", c.session.e.redact(err.Error()))
	}
	return failure(jsonrpc.CodeInternal, "%s failed: %s", c.message.Method, c.session.e.redact(err.Error()))
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
	if params = c.session.e.told(tellsProgress, func() *policy.Event { return c.question(nil) }, params); params != nil {
		c.session.notify("notifications/progress", params)
	}
}
