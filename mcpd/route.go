package mcpd

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/workspace"
)

// A route is a row of the table that says where a tool call goes.
type route struct {
	matches func(c *call) bool
	plan    func(ctx context.Context, c *call) (step, *Error)
}

// routes are tried in order; the first that matches counts. What matches none
// is refused.
var routes = []route{
	{isStep, planStep},
	{isWorkspace, planWorkspace},
	{isCommand, planCommand},
	{isComposite, planComposite},
	{isArranged, planArrangedTool},
	{isNamespaced, planServerTool},
}

func isWorkspace(c *call) bool { return c.session.e.work.Has(c.tool) }
func isArranged(c *call) bool  { return c.session.e.arrange.Load() != nil }

func isNamespaced(c *call) bool {
	_, own, ok := jsonrpc.SplitName(c.tool)
	return ok && own != ""
}

// planCall plans a tools/call.
func planCall(ctx context.Context, c *call) (step, *Error) {
	tool, ok := c.message.params.str(pName)
	if !ok || tool == "" {
		return nil, missing("name")
	}
	c.tool = tool
	for _, r := range routes {
		if r.matches(c) {
			return r.plan(ctx, c)
		}
	}
	c.own, c.missing = tool, true
	return c.unknown, nil
}

// unknown is the step of a call that goes nowhere, if it is not refused.
func (c *call) unknown(context.Context) (json.RawMessage, *Error) {
	return nil, failure(jsonrpc.CodeParams, "unknown tool: %s", c.tool)
}

func planWorkspace(_ context.Context, c *call) (step, *Error) {
	c.server, c.own = workspace.Server, c.tool
	c.schema = c.catalog()[wire.Tools].schema(c.tool)
	f := &fileCall{Call: c.session.e.work.Plan(c.tool, c.message.params.get(pArguments))}
	f.Trace, c.file = c.trace.ID(), f
	return func(ctx context.Context) (result json.RawMessage, _ *Error) {
		began := time.Now()
		result, f.done = f.Run(ctx)
		f.ran, f.took = true, time.Since(began)
		return result, nil
	}, nil
}

func planServerTool(ctx context.Context, c *call) (step, *Error) {
	server, own, _ := jsonrpc.SplitName(c.tool)
	if !c.goesTo(server, own) {
		return c.unknown, nil
	}
	e, tools := c.session.e, c.catalog()[wire.Tools]
	it, err := tools.find(ctx, e, c.tool)
	listed := err == nil && it == nil && slices.Contains(e.listed(ctx), c.server)
	if listed { // perhaps only since the list was fetched
		tools.renew(c.server)
		it, err = tools.find(ctx, e, c.tool)
	}
	if err != nil {
		return nil, err
	}
	if it != nil {
		c.own, c.schema, c.held = it.Original, it.Schema, it.Held
	}
	c.missing = it == nil && listed
	return c.forward(pName), nil
}

// goesTo notes the server that the call is for and the name there of what it is
// about, and reports whether there is such a server for this VM.
func (c *call) goesTo(server, own string) bool {
	s, ok := c.session.e.rules.Load().servers[server]
	c.server, c.own, c.missing = server, own, !ok || !s.Enabled
	return !c.missing
}

// listed returns the servers of which the catalog has all that they offer now: then
// what is not in it does not exist. Of a server that cannot be reached nobody
// knows; the call tells why.
func (e *Endpoint) listed(ctx context.Context) (servers []string) {
	c, err := e.child()
	if err != nil {
		return nil
	}
	all, err := c.Servers(ctx)
	if err != nil {
		return nil
	}
	for _, s := range all {
		if s.ToolCount > 0 && s.State == wire.Stopped || s.Connected && (s.ToolCount > 0 || s.Error == "") {
			servers = append(servers, s.Name)
		}
	}
	return servers
}
