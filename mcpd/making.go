package mcpd

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/composite"
	"hutch/mcpd/policy"
)

// A making is one run of a composite tool.
type making struct {
	whole *call // that it answers
	of    owner // to which belongs what servers ask meanwhile; nil: to each step's call
	cs    *composites
}

func isComposite(c *call) bool { return c.session.e.composite(c.tool) != nil }

// planComposite plans a call of a composite tool.
func planComposite(ctx context.Context, c *call) (step, *Error) {
	c.server, c.own, c.renamed = composite.Server, c.tool, true // a policy may say composite__NAME
	it, err := c.catalog()[wire.Tools].find(ctx, c.session.e, c.tool)
	if err != nil {
		return nil, err
	}
	cs := c.session.e.composites.Load()
	t := cs.byName[c.tool]
	if it == nil || it.Server != composite.Server || t == nil {
		c.missing = true
		return c.unknown, nil
	}
	c.schema = it.Schema
	return func(context.Context) (json.RawMessage, *Error) { return c.compose(cs, t) }, nil
}

// maxMakings is how many runs of composite tools there may be at once in all sessions:
// each may hold composite.MaxResults.
const maxMakings = 32

// compose runs a composite tool. How long that may take, the tool says.
func (c *call) compose(cs *composites, t *composite.Tool) (json.RawMessage, *Error) {
	run := func(ctx context.Context, of owner) (json.RawMessage, *Error) {
		e := c.session.e
		defer e.makings.Add(-1)
		if e.makings.Add(1) > maxMakings {
			return nil, failure(jsonrpc.CodeBusy, "too many composite tools run at once: %d", maxMakings)
		}
		m := &making{whole: c, of: of, cs: cs}
		result, err := t.Run(ctx, c.message.params.get(pArguments), composite.Caller{Call: m.call, Ask: m.ask, Schema: m.schema})
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		return result, nil
	}
	if !c.stateless() || c.client.key == "" {
		return run(c.ctx, nil)
	}
	if c.exchange == nil {
		c.exchange = c.exchanging(func(x *exchange) (json.RawMessage, *Error) { return run(x.ctx, x) })
	}
	return c.exchange.await(c.ctx)
}

// schema returns what a tool takes that a step calls, nil if nobody knows.
func (m *making) schema(tool string) json.RawMessage {
	server, own, _ := m.cs.Find(tool)
	if it := m.cs.known(jsonrpc.Name(server, own)); it != nil {
		return rawjson.Get(it.Raw, "inputSchema")
	}
	return nil
}

// call calls a tool for a step, as the client itself would.
func (m *making) call(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	server, own, ok := m.cs.Find(tool)
	if !ok {
		return nil, errors.New("no server that runs here has it")
	}
	name, renamed := m.name(server, own)
	b := rawjson.AppendString([]byte(`{"name":`), name)
	p, perr := scanParams(append(append(append(b, `,"arguments":`...), args...), '}'))
	if perr != nil {
		return nil, perr
	}
	w := m.whole
	c := &call{
		session: w.session, client: w.client, level: noLevel, process: w.process, who: w.who, begun: time.Now(), sent: len(args), trace: w.trace.Child(),
		message: message{jsonrpc.Message{Method: "tools/call"}, p}, making: m, server: server, own: own, renamed: renamed,
	}
	if w.stateless() { // it answers what is asked, but not by coming back with this call
		c.client = &client{key: w.client.key, capabilities: w.client.capabilities, revision: jsonrpc.Newest}
	}
	if why := c.session.begin(c); why != nil {
		return nil, why
	}
	defer c.session.end(c)
	stop := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	defer stop()
	result, err := c.run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.verdict.rule == policy.RuleUnregistered:
		return nil, errors.New("there is no such tool") // err names it as no config does
	case err != nil:
		return nil, err
	}
	return result, nil
}

// name returns what clients call a server's tool, or, of one that they do not know of,
// its full name.
func (m *making) name(server, own string) (name string, renamed bool) {
	if st := m.whole.catalog()[wire.Tools].kept(m.whole.session.e); st != nil && st.by != nil {
		for i := range st.items {
			if it := &st.items[i]; it.Server == server && it.Original == own {
				return it.Name, true
			}
		}
	}
	return jsonrpc.Name(server, own), false
}

func isStep(c *call) bool { return c.making != nil }

// planStep plans a call that is a step, of which the server is known.
func planStep(ctx context.Context, c *call) (step, *Error) {
	e, full := c.session.e, jsonrpc.Name(c.server, c.own)
	if !c.goesTo(c.server, c.own) {
		return c.unknown, nil
	}
	it := c.making.cs.known(full)
	if it == nil { // perhaps its server has been listed only since the list was fetched
		c.catalog()[wire.Tools].renew(c.server)
		if _, err := c.catalog()[wire.Tools].get(ctx, e); err != nil {
			return nil, err
		}
		it = c.making.cs.known(full)
	}
	if it != nil {
		c.schema, c.held = rawjson.Get(it.Raw, "inputSchema"), it.Held
	}
	c.missing = it == nil && slices.Contains(e.listed(ctx), c.server)
	return c.forward(pName), nil
}

// askedBy is to what belongs what the call's server asks meanwhile: the call, or, of a
// step whose client comes back with answers, the exchange that it comes back to.
func (c *call) askedBy() owner {
	if c.making != nil && c.making.of != nil {
		return c.making.of
	}
	return c
}

// ask has the person in front of the client answer, or, where the client does not offer
// that and nothing but a yes is wanted, whoever answers asks.
func (m *making) ask(ctx context.Context, text string, schema json.RawMessage) (action string, content json.RawMessage, err error) {
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	params, err := rawjson.Encode(map[string]any{"message": text, "requestedSchema": schema})
	if err != nil {
		return "", nil, err
	}
	e, r := m.whole.session.e, m.whole.asking(composite.Server, "elicitation/create", params)
	if m.of != nil {
		r.Owner = m.of
	}
	if to, _ := e.answerer(r); to == nil || !to.offers("elicitation") {
		return m.askOther(ctx, params, schema)
	}
	result, rerr := e.inquire(ctx, r)
	if rerr != nil {
		return "", nil, rerr
	}
	return rawjson.GetString(result, "action"), rawjson.Get(result, "content"), nil
}

// ruleElicitation is what is said to have asked for a step.
const ruleElicitation = "composite.elicitation"

var yes = json.RawMessage(`{}`)

// askOther asks whoever answers asks, who can say yes or no.
func (m *making) askOther(ctx context.Context, params, schema json.RawMessage) (action string, content json.RawMessage, err error) {
	c, e := m.whole, m.whole.session.e
	if e.cfg.Ask == nil || policy.Fits(schema, yes) != nil {
		return "", nil, errors.New("the client does not offer elicitation, and a yes or no in asks would not do")
	}
	d := e.cfg.Ask(ctx, Question{
		Event: &policy.Event{
			On: policy.OnAsk, VM: e.cfg.VM(), Profile: e.cfg.Profile(), Session: c.session.id, Principal: c.who, Process: c.process,
			Server: composite.Server, Method: "elicitation/create", Known: true, Args: params, Trace: c.trace.ID(),
		},
		Decision: policy.Decision{Action: policy.Ask, Rule: ruleElicitation, Reason: "a step of " + c.tool + " asks a person"},
		Limit:    e.rules.Load().askTime(), Call: c.row.id,
	})
	switch {
	case ctx.Err() != nil:
		return "", nil, context.Cause(ctx)
	case d.Action == policy.Allow:
		return "accept", yes, nil
	case d.Code == policy.NobodyAnswered:
		return "cancel", nil, nil
	}
	return "decline", nil, nil
}
