package mcpd

import (
	"context"
	"encoding/json"
)

// methods is the table of requests that a guest may make. A plan finds out
// where a request goes and whether it may, and returns what is to be done;
// the ledger is told before that is. "ping" is not recorded and stands
// elsewhere.
var methods = map[string]func(ctx context.Context, c *call) (step, *Error){
	"initialize":               planInitialize,
	"tools/list":               planList(func(c *catalog) *shelf { return &c.tools }),
	"tools/call":               planCall,
	"resources/list":           planList(func(c *catalog) *shelf { return &c.resources }),
	"resources/templates/list": planList(func(c *catalog) *shelf { return &c.templates }),
	"resources/read":           planResource,
	"resources/subscribe":      planSubscribe,
	"resources/unsubscribe":    planUnsubscribe,
	"prompts/list":             planList(func(c *catalog) *shelf { return &c.prompts }),
	"prompts/get":              planPrompt,
	"completion/complete":      planComplete,
	"logging/setLevel":         planLevel,
}

// The notifications that a list changed.
const (
	toolsChanged     = "notifications/tools/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
)

// catalog is the catalog of the servers as the call's client sees them.
func (c *call) catalog() *catalog {
	return c.session.e.catalogs.of(c.session.client.Load().key)
}

// planList answers with a whole list, on one page.
func planList(of func(*catalog) *shelf) func(context.Context, *call) (step, *Error) {
	return func(_ context.Context, c *call) (step, *Error) {
		if cursor, ok := c.message.params.str(pCursor); ok && cursor != "" {
			return nil, failure(codeParams, "invalid cursor: lists have one page")
		}
		return func(ctx context.Context) (json.RawMessage, *Error) {
			stock, err := of(c.catalog()).get(ctx, c.session.e)
			if err != nil {
				return nil, err
			}
			return stock.result, nil
		}, nil
	}
}

// planPrompt plans a prompts/get.
func planPrompt(ctx context.Context, c *call) (step, *Error) {
	name, ok := c.message.params.str(pName)
	if !ok || name == "" {
		return nil, missing("name")
	}
	c.tool = name
	server, own, err := c.prompt(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.forward(server, own, pName), nil
}

// prompt returns the server of a prompt and its name there.
func (c *call) prompt(ctx context.Context, name string) (server, own string, err *Error) {
	server, own = split(name)
	if server == "" || own == "" {
		return "", "", failure(codeParams, "unknown prompt: %s", name)
	}
	c.server = ledgerName(server)
	if err := c.knows(ctx, server); err != nil {
		return "", "", err
	}
	it, err := c.catalog().prompts.find(ctx, c.session.e, name)
	if it != nil {
		own = it.Original
	}
	return server, own, err
}

// planComplete plans a completion/complete, whose ref names a prompt or a
// resource template.
func planComplete(ctx context.Context, c *call) (step, *Error) {
	raw := c.message.params.get(pRef)
	if raw == nil {
		return nil, missing("ref")
	}
	ref, err := scanParams(raw)
	if err != nil {
		return nil, err
	}
	server, own, member := "", "", pName
	kind, _ := ref.str(pType)
	name, hasName := ref.str(pName)
	uri, hasURI := ref.str(pURI)
	switch {
	case kind == "ref/prompt" && hasName:
		c.tool = name
		server, own, err = c.prompt(ctx, name)
	case kind == "ref/resource" && hasURI:
		c.tool, member = uri, pURI
		server, own, err = c.resource(ctx, uri)
	default:
		return nil, failure(codeParams, "invalid ref: neither a prompt nor a resource")
	}
	if err != nil {
		return nil, err
	}
	params := c.message.params.splice(pRef, ref.with(member, own))
	return func(ctx context.Context) (json.RawMessage, *Error) {
		return c.send(ctx, server, c.message.method, params)
	}, nil
}
