package mcpd

import (
	"context"
	"encoding/json"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/seal"
)

// methods is the table of requests that a guest may make. A plan finds out
// where a request goes, and returns what is to be done; that is done when the
// ledger has the request and the policy allows it. "ping" is not recorded and
// stands elsewhere.
var methods = map[string]func(ctx context.Context, c *call) (step, *Error){
	"initialize":               planInitialize,
	"tools/list":               planList(wire.Tools),
	"tools/call":               planCall,
	"resources/list":           planList(wire.Resources),
	"resources/templates/list": planList(wire.Templates),
	"resources/read":           planResource,
	"resources/subscribe":      planSubscribe,
	"resources/unsubscribe":    planUnsubscribe,
	"prompts/list":             planList(wire.Prompts),
	"prompts/get":              planPrompt,
	"completion/complete":      planComplete,
	"logging/setLevel":         planLevel,
	seal.Attest:                planAttest(seal.SEAL),
	seal.AttestSMCP:            planAttest(seal.SMCP),
}

// catalog is the catalog of the servers as the call's client sees them.
func (c *call) catalog() catalog {
	return c.session.e.catalogs.of(c.session.client.Load().key)
}

// planList answers with a whole list, on one page.
func planList(list *wire.List) func(context.Context, *call) (step, *Error) {
	return func(_ context.Context, c *call) (step, *Error) {
		if cursor, ok := c.message.params.str(pCursor); ok && cursor != "" {
			return nil, failure(jsonrpc.CodeParams, "invalid cursor: lists have one page")
		}
		return func(ctx context.Context) (json.RawMessage, *Error) {
			stock, err := c.catalog()[list].get(ctx, c.session.e)
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
	return c.forward(pName), c.prompt(ctx, name)
}

// prompt finds the server of a prompt and its name there.
func (c *call) prompt(ctx context.Context, name string) *Error {
	c.tool = name
	server, own, ok := jsonrpc.SplitName(name)
	if !ok || own == "" {
		return failure(jsonrpc.CodeParams, "unknown prompt: %s", name)
	}
	if !c.goesTo(server, own) {
		return nil
	}
	it, err := c.catalog()[wire.Prompts].find(ctx, c.session.e, name)
	if it != nil {
		c.own = it.Original
	}
	return err
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
	member := pName
	kind, _ := ref.str(pType)
	name, hasName := ref.str(pName)
	uri, hasURI := ref.str(pURI)
	switch {
	case kind == "ref/prompt" && hasName:
		err = c.prompt(ctx, name)
	case kind == "ref/resource" && hasURI:
		member = pURI
		err = c.resource(ctx, uri)
	default:
		err = failure(jsonrpc.CodeParams, "invalid ref: neither a prompt nor a resource")
	}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		params := c.message.params.splice(pRef, ref.with(member, c.own))
		return c.send(ctx, c.server, c.message.Method, params)
	}, err
}
