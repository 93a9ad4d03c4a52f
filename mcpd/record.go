package mcpd

import (
	"context"
	"encoding/json"
	"errors"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// A row is a call's record in the ledger.
type row struct {
	db      *ledger.DB
	id      uint64
	durable func(context.Context) error
}

// record begins the call's row. Nothing is decided yet.
func (c *call) record(ctx context.Context) *Error {
	db, err := c.session.e.cfg.Ledger()
	if err != nil {
		return noLedger(err)
	}
	c.traceID = c.trace()
	id, durable, err := db.Begin(ctx, ledger.Call{
		Server: ledgerName(c.server), Method: c.message.Method, Tool: c.tool, RequestID: string(c.message.ID),
		Decision: ledger.Pending, Request: c.message.params.raw, Process: c.process, BytesSent: int64(c.sent),
		TraceID: c.traceID,
	})
	if err != nil {
		return noLedger(err)
	}
	c.row = row{db, id, durable}
	c.session.e.count.begun.Add(1)
	return nil
}

func noLedger(err error) *Error { return failure(jsonrpc.CodeInternal, "ledger: %s", err) }

// decided writes down what was decided; err is why the call goes no further.
func (c *call) decided(err *Error) *Error {
	word := "allowed"
	switch {
	case c.verdict.denied:
		word = "denied"
	case err != nil:
		word = "error"
	}
	v := c.verdict
	durable, lerr := c.row.db.Decide(c.row.id, ledger.Verdict{
		Decision: word, PolicyAction: v.action, PolicyRule: v.rule, PolicyReason: v.reason, Request: c.rewritten,
	})
	if lerr != nil {
		return noLedger(lerr)
	}
	c.row.durable = durable
	return nil
}

// asked writes down that a person is asked, before the wait begins.
func (c *call) asked(d policy.Decision) *Error {
	durable, err := c.row.db.Decide(c.row.id, ledger.Verdict{
		Decision: ledger.Pending, PolicyAction: d.Action, PolicyRule: d.Rule, PolicyReason: d.Reason,
	})
	if err == nil {
		c.row.durable = durable
		err = durable(c.ctx)
	}
	switch {
	case c.ctx.Err() != nil:
		return ended(c.ctx)
	case err != nil:
		return noLedger(err)
	}
	return nil
}

// answer ends the call's row and returns the answer once the row is durable;
// what came of the call may follow.
func (c *call) answer(result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	err = c.fit(result, err)
	c.session.e.count.add(c.verdict.denied, err)
	c.recordFile(err)
	c.recordCommand()
	c.row.db.End(c.row.id, c.outcome(result, err)) // before the wait: often one commit takes both
	if lerr := c.row.durable(context.WithoutCancel(c.ctx)); lerr != nil {
		return nil, noLedger(lerr)
	}
	return result, err
}

func (c *call) outcome(result json.RawMessage, err *Error) ledger.Outcome {
	o := ledger.Outcome{Duration: c.took(), Response: result, BytesReceived: int64(len(result))}
	if cause := context.Cause(c.ctx); cause != nil {
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
	if err != nil {
		o.Error = err.Message
		o.Response = err.Sent
		if !c.verdict.denied {
			o.Decision = "error"
		}
	}
	return o
}

// ledgerName is the name that the ledger has for a server.
func ledgerName(server string) string {
	if server == wire.Local {
		return builtinServer
	}
	return server
}
