package mcpd

import (
	"context"
	"encoding/json"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// An inquiry is what a server asks of the guest. It goes through the same stages
// as a call: record, decide, do, judge, answer.
type inquiry struct {
	e       *Endpoint
	to      answerer // that is asked; nil: there is none
	session *session // of that
	request wire.ServerRequest
	event   policy.Event
	begun   time.Time

	row     row
	verdict verdict
}

// asked answers a server's request: the guest does whose call it belongs to,
// if the policy lets the server ask, and lets it have the answer.
func (e *Endpoint) asked(ctx context.Context, r wire.ServerRequest) (result, rpcError json.RawMessage) {
	if r.Method == "ping" {
		return json.RawMessage(`{}`), nil
	}
	if o, ok := r.Owner.(owner); ok {
		var cancel context.CancelFunc
		ctx, cancel = joined(ctx, o.context())
		defer cancel()
	}
	result, err := e.inquire(ctx, r)
	if err != nil {
		return nil, err.Raw()
	}
	return result, nil
}

// inquire has a server's request answered by whom it is for.
func (e *Endpoint) inquire(ctx context.Context, r wire.ServerRequest) (json.RawMessage, *Error) {
	to, s := e.answerer(r)
	var why *Error
	if r.Params, why = e.hide(r.Params); why != nil {
		return nil, why
	}
	return e.inquiry(r, to, s).run(ctx)
}

func (e *Endpoint) inquiry(r wire.ServerRequest, to answerer, s *session) *inquiry {
	return &inquiry{e: e, to: to, session: s, request: r, begun: time.Now()}
}

func noMethod(method string) *Error {
	return failure(jsonrpc.CodeMethod, "method not found: %s", method)
}

func (q *inquiry) run(ctx context.Context) (json.RawMessage, *Error) {
	if askable[q.request.Method] == "" {
		return nil, noMethod(q.request.Method)
	}
	if err := q.record(ctx); err != nil {
		return nil, err
	}
	err := q.decide(ctx)
	if why := q.row.decided(q.verdict, err, q.verdict.rewritten); why != nil {
		return nil, why
	}
	var result json.RawMessage
	if err == nil {
		result, err = q.to.ask(ctx, q.request)
		result, err = q.judge(ctx, result, err)
	}
	return q.answer(ctx, result, err)
}

// record begins the row.
func (q *inquiry) record(ctx context.Context) (err *Error) {
	r := q.request
	q.event = policy.Event{
		On: policy.OnAsk, VM: q.e.cfg.VM(), Profile: q.e.cfg.Profile(), Process: "unknown",
		Server: r.Server, Method: r.Method, Known: true, Args: r.Params,
	}
	if s := q.session; s != nil {
		q.event.Session, q.event.Principal, q.event.Process = s.id, s.principal, s.process
	}
	if c := callOf(r.Owner); c != nil {
		q.event.Trace = c.trace.ID()
	}
	q.row, err = q.e.record(ctx, ledger.Call{
		Direction: ledger.FromServer, Server: ledgerName(r.Server), Method: r.Method, Decision: ledger.Pending, Request: r.Params,
		Process: q.event.Process, Principal: q.event.Principal, BytesSent: int64(len(r.Params)), TraceID: q.event.Trace,
	})
	return err
}

// decide decides whether the guest is asked at all, and what.
func (q *inquiry) decide(ctx context.Context) (err *Error) {
	if q.to == nil || !q.to.offers(askable[q.request.Method]) {
		return noMethod(q.request.Method)
	}
	q.verdict, err = q.e.decide(ctx, &q.event, &q.row)
	if q.verdict.rewritten != nil {
		q.request.Params, q.event.Args = q.verdict.rewritten, q.verdict.rewritten
	}
	return err
}

// judge decides whether the server may have the guest's answer.
func (q *inquiry) judge(ctx context.Context, result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	if !q.e.rules.Load().judges || result == nil && err == nil { // it comes later
		return result, err
	}
	q.event.On, q.event.Answer = policy.OnResponse, result
	if err != nil {
		q.event.Answer, q.event.Error, q.event.Failed = err.Raw(), true, true
	}
	v, why := q.e.decide(ctx, &q.event, &q.row)
	if v.denied || v.asked || v.action == policy.Observe || v.rewritten != nil {
		q.verdict = v
		if lerr := q.row.decided(v, why, nil); lerr != nil {
			return nil, lerr
		}
	}
	return v.passed(result, err, why)
}

// answer ends the row, and returns the answer once the row is durable.
func (q *inquiry) answer(ctx context.Context, result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	o := ledger.Outcome{Duration: time.Since(q.begun), Response: result, BytesReceived: int64(len(result))}
	if err != nil {
		o.Error, o.Response, o.IsError = err.Message, err.Sent, true
		if !q.verdict.denied {
			o.Decision = "error"
		}
	}
	if ctx.Err() != nil && !q.verdict.denied {
		o.Outcome, o.Error, o.IsError = ledger.Interrupted, context.Cause(ctx).Error(), true
	}
	return result, q.row.end(ctx, o, err)
}
