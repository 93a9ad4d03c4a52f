package mcpd

import (
	"context"
	"encoding/json"
	"strings"

	"hutch/aggd/wire"
	"hutch/mcpd/workspace"
)

// A route is a row of the table that says where a tool call goes.
type route struct {
	matches func(tool string) bool
	plan    func(ctx context.Context, c *call, tool string) (step, *Error)
}

// routes are tried in order; the first that matches counts. What matches none
// is refused.
var routes = []route{
	{isLocal, planServerTool},
	{workspace.Has, planWorkspace},
	{isNamespaced, planServerTool},
}

// localTools are the tools of hutch's own that use the network.
var localTools = map[string]bool{
	"local__fetch_http": true, "local__grep_http": true, "local__http_headers": true, "local__echo": true,
}

func isLocal(tool string) bool { return localTools[tool] }

func isNamespaced(tool string) bool {
	server, name := split(tool)
	return server != "" && name != ""
}

// split takes server__name apart, at the first "__".
func split(name string) (server, own string) {
	server, own, found := strings.Cut(name, "__")
	if !found {
		return "", name
	}
	return server, own
}

// planCall plans a tools/call.
func planCall(ctx context.Context, c *call) (step, *Error) {
	tool, ok := c.message.params.str(pName)
	if !ok || tool == "" {
		return nil, missing("name")
	}
	c.tool = tool
	for _, r := range routes {
		if r.matches(tool) {
			return r.plan(ctx, c, tool)
		}
	}
	return nil, c.decide(ctx, "", tool, false)
}

func planWorkspace(ctx context.Context, c *call, tool string) (step, *Error) {
	c.server = fileServer
	if err := c.decide(ctx, fileServer, tool, true); err != nil {
		return nil, err
	}
	args := c.message.params.get(pArguments)
	return func(ctx context.Context) (json.RawMessage, *Error) {
		return c.session.e.work.Call(ctx, tool, args), nil
	}, nil
}

func planServerTool(ctx context.Context, c *call, tool string) (step, *Error) {
	server, own := split(tool)
	c.server = ledgerName(server)
	if err := c.knows(ctx, server); err != nil {
		return nil, err
	}
	tools := &c.catalog().tools
	it, err := tools.find(ctx, c.session.e, tool)
	listed := err == nil && it == nil && c.session.e.listed(ctx, server)
	if listed { // perhaps only since the list was fetched
		it, err = tools.since(ctx, c.session.e, server, tool)
	}
	if err != nil {
		return nil, err
	}
	if it != nil {
		own = it.Original
	}
	if err := c.decide(ctx, server, own, true); err != nil {
		return nil, err // for the better reason, whether there is such a tool or not
	}
	if it == nil && listed {
		return nil, c.decide(ctx, server, own, false)
	}
	return c.forward(server, own, pName), nil
}

// listed reports whether the catalog has all that server offers now: then
// what is not in it does not exist. Of a server that cannot be reached nobody
// knows; the call tells why.
func (e *Endpoint) listed(ctx context.Context, server string) bool {
	c, err := e.child()
	if err != nil {
		return false
	}
	all, err := c.Servers(ctx)
	if err != nil {
		return false
	}
	for _, s := range all {
		if s.Name == server {
			return s.ToolCount > 0 && s.State == wire.Stopped || s.State == wire.Connected && (s.ToolCount > 0 || s.Error == "")
		}
	}
	return false
}

// ledgerName is the name that the ledger has for a server.
func ledgerName(server string) string {
	if server == wire.Local {
		return builtinServer
	}
	return server
}
