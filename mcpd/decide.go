package mcpd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/composite"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/policy"
	"hutch/mcpd/workspace"
)

// A verdict is what was decided about a call, and by which rule.
type verdict struct {
	denied, asked        bool // asked: a person
	action, rule, reason string
	rewritten            []byte // what is in the place of the arguments, or of the result; nil: they stay
}

// A decider decides a request, or judges an answer. It may wait for a person,
// as long as the context lasts.
type decider func(context.Context, *policy.Event) policy.Decision

// decide asks the policy whether what r is about may be, and a person where the
// policy says so; w is the row of what waits for it. It is the
// one place where that is asked, and where what is blocked is told of.
func (e *Endpoint) decide(ctx context.Context, r *policy.Event, w *row) (verdict, *Error) {
	now := e.rules.Load()
	args, result := r.Args, r.Answer
	if now.decide == nil {
		if r.On == policy.OnRequest && r.Method == "tools/call" {
			return verdict{}, failure(jsonrpc.CodeInternal, "there is no policy yet")
		}
		return verdict{}, nil
	}
	d := now.decide(ctx, r)
	asked := d.Action == policy.Ask
	if asked {
		answer, err := e.askPerson(ctx, Question{Event: r, Decision: d, Limit: now.askTime()}, w)
		if ctx.Err() == nil && err != nil {
			return verdict{}, err
		}
		if ctx.Err() != nil {
			return verdict{asked: true, action: d.Action, rule: d.Rule, reason: d.Reason}, ended(ctx)
		}
		d.Action, d.Rule, d.Reason, d.Code = answer.Action, answer.Rule, answer.Reason, answer.Code
		if d.Action == policy.Allow {
			d = e.allowed(ctx, now, r, args, result, d)
		}
	}
	if ctx.Err() != nil {
		return verdict{}, ended(ctx)
	}
	if d.Would != "" {
		e.observed(r, d)
		return verdict{action: policy.Observe, rule: d.Rule, reason: d.Reason, rewritten: d.Rewritten}, nil
	}
	v := verdict{asked: asked, action: d.Action, rule: d.Rule, reason: d.Reason}
	switch {
	case d.Action == policy.Rewrite && d.Rewritten != nil:
		v.rewritten = d.Rewritten
	case d.Action != policy.Allow:
		v.denied = true
		return v, e.blocked(r, d)
	}
	return v, nil
}

// blocked is the error for what was denied, and tells of it. Its data say what
// a program or a model can do about it; what the policy looks for is not told.
func (e *Endpoint) blocked(r *policy.Event, d policy.Decision) *Error {
	what := "request"
	if r.Answer != nil {
		what = "result"
	}
	e.alert("mcp.violation", d.Rule, r.Trace, fmt.Sprintf("process %s: %s %q: %s: %s", r.Process, r.Method, e.preview(cmp.Or(r.Name, r.Server), 200), d.Rule, e.preview(d.Reason, 400)))
	err := invalid("MCP %s blocked by policy: %s: %s", what, d.Rule, d.Reason)
	if d.Rule == policy.RuleUnregistered {
		err = notFound(r)
		if why := e.Missing(e.ctx, r.Name); why != "" && r.Answer == nil {
			err.Message += "; " + why
		}
	}
	err.Data = refusalData(d)
	return err
}

// notFound is the error for what there is not, as MCP has it. That it was asked
// for is a violation all the same.
func notFound(r *policy.Event) *Error {
	code, what := jsonrpc.CodeParams, "tool"
	switch {
	case strings.HasPrefix(r.Method, "resources/"):
		code, what = jsonrpc.CodeResource, "resource"
	case r.Method != "tools/call":
		what = "prompt"
	}
	return failure(code, "%s not found: %s", what, r.Name)
}

// refusalData are the data of the error for what was blocked.
func refusalData(d policy.Decision) json.RawMessage {
	code := cmp.Or(d.Code, policy.ToolExplicitlyDenied)
	data, err := rawjson.Encode(struct {
		Class      string `json:"class"`
		Code       int    `json:"code"`
		Name       string `json:"name"`
		Violation  string `json:"violation"`
		RetryAfter int64  `json:"retry_after_ms,omitempty"`
	}{code.Class, code.Number, code.Name, code.Violation, d.RetryAfter.Milliseconds()})
	if err != nil {
		return nil
	}
	return data
}

// decide decides the call. The time that takes is not the call's.
func (c *call) decide() (err *Error) {
	if c.exchange != nil { // it is decided already
		c.verdict = c.exchange.verdict
		return nil
	}
	r := c.question(nil)
	if c.held != nil {
		return c.block(r, heldBack(c.tool, c.held.Why))
	}
	if c.missing && c.message.Method != "tools/call" {
		reason := fmt.Sprintf("server %q is not registered", c.server)
		return c.block(r, policy.Decision{Rule: policy.RuleUnregistered, Reason: reason, Code: policy.ToolNotAllowed})
	}
	if err := c.refuseTraversal(r); err != nil {
		return err
	}
	defer c.wait(time.Now())
	c.verdict, err = c.session.e.decide(c.ctx, r, &c.row)
	if err == nil && c.verdict.rewritten != nil {
		err = c.rewrite(c.verdict.rewritten)
	}
	if err == nil {
		err = c.decideAnswers()
	}
	if err == nil {
		err = c.decideFile()
	}
	if err == nil {
		err = c.decideCommand()
	}
	if err != nil {
		return err
	}
	release, refused := r.Acquire()
	switch {
	case refused == nil:
	case refused.Would != "":
		c.session.e.observed(r, *refused)
		c.verdict = verdict{action: policy.Observe, rule: refused.Rule, reason: refused.Reason}
	default:
		return c.block(r, *refused)
	}
	if release != nil {
		c.releases = append(c.releases, release)
	}
	return nil
}

// rewrite has the call go on with other arguments. What is found out from
// them is found out anew.
func (c *call) rewrite(args []byte) (err *Error) {
	p := &c.message.params
	if p.get(pArguments) == nil { // what can have arguments has a name at least
		at := bytes.IndexByte(p.raw, '{') + 1
		p.raw = rawjson.Splice(p.raw, at, at, []byte(`"arguments":null,`))
		if *p, err = scanParams(p.raw); err != nil {
			return err
		}
	}
	raw := p.splice(pArguments, args)
	if c.message.params, err = scanParams(raw); err != nil {
		return err
	}
	c.rewritten = raw
	if c.command != nil {
		c.command.plan(args)
	}
	if c.file == nil {
		return nil
	}
	c.file.Call = c.session.e.work.Plan(c.tool, args)
	c.file.Trace = c.trace.ID()
	return c.refuseTraversal(c.question(nil))
}

// block refuses the call for what no policy needs to be asked about.
func (c *call) block(r *policy.Event, d policy.Decision) *Error {
	c.verdict = verdict{denied: true, action: policy.Block, rule: d.Rule, reason: d.Reason}
	return c.session.e.blocked(r, d)
}

// judge decides whether the guest may have the call's answer.
func (c *call) judge(ctx context.Context, result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	method := c.message.Method
	if method == "tasks/result" {
		method = "tools/call" // whose result it is
	}
	result, err = c.judgeAs(method, result, err)
	if err == nil && c.task != nil && c.message.Method == "tasks/get" {
		result, err = c.judgeTask(ctx, result)
	}
	if err == nil {
		if err = c.noteTask(result); err != nil {
			result = nil
		}
	}
	return result, err
}

// judgeAs is judge for the answer to a request of that method.
func (c *call) judgeAs(method string, result json.RawMessage, err *Error) (json.RawMessage, *Error) {
	answer := result
	if err != nil {
		answer = err.Sent // nil if no server said it
	}
	if answer == nil || is(c.message.Method, unjudged) || !c.session.e.rules.Load().judges {
		return result, err
	}
	defer c.wait(time.Now())
	r := c.question(answer)
	r.Method = method
	r.Error, r.Failed = err != nil, err != nil || c.isError(result)
	v, why := c.session.e.decide(c.ctx, r, &c.row)
	if v.denied || v.asked || v.action == policy.Observe || v.rewritten != nil {
		c.verdict = v
		if lerr := c.row.decided(v, why, nil); lerr != nil {
			return nil, lerr
		}
	}
	return v.passed(result, err, why)
}

// passed returns what is left of an answer that was judged; why is why nothing is.
func (v verdict) passed(result json.RawMessage, err, why *Error) (json.RawMessage, *Error) {
	switch {
	case why != nil:
		return nil, why
	case v.rewritten == nil:
		return result, err
	case err != nil:
		return nil, jsonrpc.Received(v.rewritten)
	}
	return v.rewritten, nil
}

// wait notes that the call waited since then for a decision.
func (c *call) wait(since time.Time) { c.waited += time.Since(since) }

// question is what the policy is told of the call, and of its answer.
func (c *call) question(answer []byte) *policy.Event {
	on := policy.OnRequest
	if answer != nil {
		on = policy.OnResponse
	}
	e := c.session.e
	return &policy.Event{
		On: on, VM: e.cfg.VM(), Profile: e.cfg.Profile(), Session: c.session.id, Principal: c.who, Process: c.process,
		Server: c.server, Tool: c.own, Method: c.message.Method, Name: c.tool, Known: !c.missing, Arranged: c.renamed,
		Args: c.message.params.get(pArguments), Schema: c.schema, Answer: answer, Trace: c.trace.ID(),
	}
}

// SetFiles says by which of their names the tools for files are shown, that have several: fs or
// file; "": by all of them.
func (e *Endpoint) SetFiles(set string) { e.files.Store(&set) }

// hides says whether a tool is not shown: another does the same, or the policy refuses it,
// whatever the arguments of a call are.
func (e *Endpoint) hides(it *wire.Item) bool {
	p := e.rules.Load().policy
	files := e.files.Load()
	switch {
	case it.Server == workspace.Server && files != nil && policy.IsTwin(it.Name, *files):
		return true
	case it.Server == dispatch.Server && it.Name == dispatch.Tool && !e.runs():
		return true
	case p == nil:
		return false
	}
	d := p.Decide(&policy.Event{
		On: policy.OnRequest, VM: e.cfg.VM(), Profile: e.cfg.Profile(), Server: it.Server, Tool: it.Original, Method: "tools/call", Name: it.Name, Known: true,
		Arranged: it.Server == composite.Server || e.arrange.Load() != nil && !e.isOwn(it.Name), Listing: true,
	})
	return d.Action == policy.Block
}
