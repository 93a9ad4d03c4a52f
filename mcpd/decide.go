package mcpd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// A verdict is what was decided about a call, and by which rule.
type verdict struct {
	denied, asked        bool // asked: a person
	action, rule, reason string
}

// A decider decides a request, or judges an answer. It may wait for a person,
// as long as the context lasts.
type decider func(context.Context, *policy.Event) policy.Decision

// decide asks the policy whether what r is about may be, and a person where the
// policy says so; c is the call that waits for it, nil if it is none. It is the
// one place where that is asked, and where what is blocked is told of.
func (e *Endpoint) decide(ctx context.Context, r *policy.Event, c *call) (verdict, *Error) {
	now := e.rules.Load()
	if now.decide == nil {
		if r.On == policy.OnRequest && r.Method == "tools/call" {
			return verdict{}, failure(jsonrpc.CodeInternal, "there is no policy yet")
		}
		return verdict{}, nil
	}
	d := now.decide(ctx, r)
	asked := d.Action == policy.Ask
	if asked {
		answer, err := e.askPerson(ctx, Question{Event: r, Decision: d, Limit: now.askTime()}, c)
		if ctx.Err() == nil && err != nil {
			return verdict{}, err
		}
		if ctx.Err() != nil {
			return verdict{asked: true, action: d.Action, rule: d.Rule, reason: d.Reason}, ended(ctx)
		}
		d = answer
	}
	if ctx.Err() != nil {
		return verdict{}, ended(ctx)
	}
	if d.Would != "" {
		e.observed(r, d)
		return verdict{action: policy.Observe, rule: d.Rule, reason: d.Reason}, nil
	}
	v := verdict{d.Action != policy.Allow, asked, d.Action, d.Rule, d.Reason}
	if v.denied {
		return v, e.blocked(r, v)
	}
	return v, nil
}

// blocked is the error for what was denied, and tells of it.
func (e *Endpoint) blocked(r *policy.Event, v verdict) *Error {
	what := "request"
	if r.Answer != nil {
		what = "result"
	}
	e.alert("mcp.violation", fmt.Sprintf("process %s: %s %.200q: %s: %.400s", r.Process, r.Method, cmp.Or(r.Name, r.Server), v.rule, v.reason))
	return invalid("MCP %s blocked by policy: %s: %s", what, v.rule, v.reason)
}

// decide decides the call. The time that takes is not the call's.
func (c *call) decide() (err *Error) {
	r := c.question(nil)
	if c.missing && c.message.Method != "tools/call" {
		c.verdict = verdict{true, false, policy.Block, "unregistered", fmt.Sprintf("server %q is not registered", c.server)}
		return c.session.e.blocked(r, c.verdict)
	}
	if err := c.refuseTraversal(r); err != nil {
		return err
	}
	defer c.wait(time.Now())
	c.verdict, err = c.session.e.decide(c.ctx, r, c)
	if err == nil {
		err = c.decideFile()
	}
	if err != nil {
		return err
	}
	release, refused := r.Acquire()
	if refused != nil {
		c.verdict = verdict{true, false, refused.Action, refused.Rule, refused.Reason}
		return c.session.e.blocked(r, c.verdict)
	}
	c.release = release
	return nil
}

// judge decides whether the guest may have the call's answer.
func (c *call) judge(result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	answer := result
	if err != nil {
		answer = err.Sent // nil if no server said it
	}
	if answer == nil {
		return result, err
	}
	defer c.wait(time.Now())
	v, why := c.session.e.decide(c.ctx, c.question(answer), c)
	if v.denied || v.asked || v.action == policy.Observe {
		c.verdict = v
		if lerr := c.decided(why); lerr != nil {
			return nil, lerr
		}
	}
	if why != nil {
		return nil, why
	}
	return result, err
}

// wait notes that the call waited since then for a decision.
func (c *call) wait(since time.Time) { c.waited += time.Since(since) }

// question is what the policy is told of the call, and of its answer.
func (c *call) question(answer []byte) *policy.Event {
	on := policy.OnRequest
	if answer != nil {
		on = policy.OnResponse
	}
	return &policy.Event{
		On: on, VM: c.session.e.cfg.VM(), Process: c.process, Server: c.server, Tool: c.own, Method: c.message.Method,
		Name: c.tool, Known: !c.missing, Args: c.message.params.get(pArguments), Answer: answer,
	}
}

// hides says whether a tool is not shown: the policy would refuse each call.
func (e *Endpoint) hides(it *wire.Item) bool {
	p := e.rules.Load().policy
	if p == nil {
		return false
	}
	d := p.Decide(&policy.Event{
		On: policy.OnRequest, VM: e.cfg.VM(), Server: it.Server, Tool: it.Original, Method: "tools/call", Name: it.Name, Known: true,
		Listing: true,
	})
	return d.Action != policy.Allow
}
