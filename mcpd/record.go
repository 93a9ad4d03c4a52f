package mcpd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// A row is the record of a request in the ledger.
type row struct {
	db      *ledger.DB
	id      uint64
	durable func(context.Context) error
	tell    func(reason string) (stop func()) // tells who waits that a person decides; nil: it cannot be told
}

// record begins a row.
func (e *Endpoint) record(ctx context.Context, c ledger.Call) (row, *Error) {
	db, err := e.cfg.Ledger()
	if err != nil {
		return row{}, noLedger(err)
	}
	id, durable, err := db.Begin(ctx, c)
	if err != nil {
		return row{}, noLedger(err)
	}
	return row{db: db, id: id, durable: durable}, nil
}

// record begins the call's row. Nothing is decided yet.
func (c *call) record(ctx context.Context) (err *Error) {
	c.row, err = c.session.e.record(ctx, ledger.Call{
		Time: c.begun, Server: ledgerName(c.server), Method: c.message.Method, Tool: c.tool, RequestID: string(c.message.ID),
		Decision: ledger.Pending, Request: c.message.params.raw, Process: c.process, BytesSent: int64(c.sent),
		TraceID: c.trace.ID(), Principal: c.who,
	})
	if err != nil {
		return err
	}
	c.row.tell = c.tellWait
	c.releases = append(c.releases, ledger.IfLong(func() {
		if e := c.session.e; c.row.db.Begun(c.row.id) && e.cfg.Begun != nil {
			e.cfg.Begun(e.redact(strings.TrimSpace(fmt.Sprintf("%d %s %s", c.row.id, c.message.Method, c.tool))), c.trace.ID())
		}
	}))
	c.session.e.count.begun.Add(1)
	return nil
}

func noLedger(err error) *Error { return failure(jsonrpc.CodeInternal, "ledger: %s", err) }

// decided writes down what was decided; err is why the request goes no further,
// and rewritten what it is now, nil if that is what it was.
func (r *row) decided(v verdict, err *Error, rewritten []byte) *Error {
	word := "allowed"
	switch {
	case v.denied:
		word = "denied"
	case err != nil:
		word = "error"
	}
	durable, lerr := r.db.Decide(r.id, ledger.Verdict{
		Decision: word, PolicyAction: v.action, PolicyRule: v.rule, PolicyReason: v.reason, Request: rewritten,
	})
	if lerr != nil {
		return noLedger(lerr)
	}
	r.durable = durable
	return nil
}

// asked writes down that a person is asked, before the wait begins.
func (r *row) asked(ctx context.Context, d policy.Decision) *Error {
	durable, err := r.db.Decide(r.id, ledger.Verdict{
		Decision: ledger.Pending, PolicyAction: d.Action, PolicyRule: d.Rule, PolicyReason: d.Reason,
	})
	if err == nil {
		r.durable = durable
		err = durable(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case err != nil:
		return noLedger(err)
	}
	return nil
}

// end ends the row and returns err once the row is durable; what came of the
// request may follow.
func (r *row) end(ctx context.Context, o ledger.Outcome, err *Error) *Error {
	r.db.End(r.id, o) // before the wait: often one commit takes both
	if lerr := r.durable(context.WithoutCancel(ctx)); lerr != nil {
		return noLedger(lerr)
	}
	return err
}

// answer ends the call's row and returns the answer once that is durable.
func (c *call) answer(result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	if why := c.refusedInside(result); why != nil {
		return nil, why
	}
	if err = c.fit(result, err); err != nil {
		result = nil // which nobody gets: it may be long
	}
	c.session.e.count.add(c.verdict.denied, err)
	c.recordFile(err)
	c.recordCommand()
	o := c.outcome(result, err)
	c.tellEnded(o, err)
	if why := c.row.end(c.ctx, o, err); why != nil {
		return nil, why
	}
	return result, nil
}

func (c *call) outcome(result json.RawMessage, err *Error) ledger.Outcome {
	o := ledger.Outcome{Duration: c.took(), Response: result, BytesReceived: int64(len(result)), IsError: c.isError(result)}
	if cause := context.Cause(c.ctx); cause != nil && c.message.Method != "subscriptions/listen" { // which ends so
		if a := c.verdict.action; a == policy.Allow || a == policy.Rewrite || a == policy.Observe {
			o.Outcome = ledger.Interrupted // in the middle: nobody knows what was done
		}
		var gone *cancellation
		switch {
		case errors.As(cause, &gone) && gone.reason != "":
			err = failure(jsonrpc.CodeInternal, "cancelled by the client: %s", gone.reason)
		case cause == context.Canceled: // by whoever called through the tree
			err = failure(jsonrpc.CodeInternal, "the caller gave up")
		default:
			err = failure(jsonrpc.CodeInternal, "%s", cause)
		}
	}
	if c.inside != "" {
		o.Error = c.inside
	}
	if err != nil {
		o.Error = err.Message
		o.Response = err.Sent
		if !c.verdict.denied {
			o.Decision = "error"
		}
		if isFate(err.Raw(), wire.Unknown) {
			o.Outcome = ledger.Interrupted
		}
	}
	return o
}

// isError tells whether the result is a tool's that says that it failed.
func (c *call) isError(result json.RawMessage) bool {
	return c.message.Method == "tools/call" && string(rawjson.Get(result, "isError")) == "true"
}

// ledgerName is the name that the ledger has for a server.
func ledgerName(server string) string {
	if server == wire.Local {
		return builtinServer
	}
	return server
}
