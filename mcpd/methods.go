package mcpd

import (
	"context"
	"encoding/json"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/seal"
)

// A method is a row of the table of requests. Its plan finds out where a request
// goes, and returns what is to be done; that is done when the ledger has the
// request and the policy allows it.
type method struct {
	plan func(ctx context.Context, c *call) (step, *Error)
	of   era
	is   trait
}

// A trait is what else there is to know of a request.
type trait uint8

const (
	unjudged  trait = 1 << iota // its result is the endpoint's own
	unsealed                    // it needs no envelope: by it a guest comes to know that it needs one, or to be able to make one
	cacheable                   // its result says for how long it may be kept, and for whom
)

// is reports whether a request has a trait.
func is(method string, t trait) bool { return methods[method].is&t != 0 }

// An era says in which revisions there is something: those of sessions, those
// from 2026-07-28 on.
type era uint8

const (
	sessions era = 1 << iota
	stateless
	always = sessions | stateless
)

func (of era) has(c *call) bool {
	if c.stateless() {
		return of&stateless != 0
	}
	return of&sessions != 0
}

// methods is the table of requests that a guest may make.
var methods map[string]method

func init() { // they mention the table
	methods = map[string]method{
		"initialize":               {planInitialize, sessions, unjudged | unsealed},
		"server/discover":          {planDiscover, stateless, unjudged | unsealed | cacheable},
		"ping":                     {planPing, sessions, unsealed},
		"subscriptions/listen":     {planListen, stateless, unjudged},
		"tools/list":               {planList(wire.Tools), always, cacheable},
		"tools/call":               {planCall, always, 0},
		"resources/list":           {planList(wire.Resources), always, cacheable},
		"resources/templates/list": {planList(wire.Templates), always, cacheable},
		"resources/read":           {planResource, always, cacheable},
		"resources/subscribe":      {planSubscribe, sessions, 0},
		"resources/unsubscribe":    {planUnsubscribe, sessions, 0},
		"prompts/list":             {planList(wire.Prompts), always, cacheable},
		"prompts/get":              {planPrompt, always, 0},
		"tasks/get":                {planTask, always, 0},
		"tasks/cancel":             {planTask, always, 0},
		"tasks/result":             {planTask, sessions, 0},
		"tasks/list":               {planTasks, sessions, 0},
		"tasks/update":             {planTask, stateless, 0},
		"completion/complete":      {planComplete, always, 0},
		"logging/setLevel":         {planLevel, sessions, unjudged},
		seal.Attest:                {planAttest(seal.SEAL), always, unjudged | unsealed},
		seal.AttestSMCP:            {planAttest(seal.SMCP), always, unjudged | unsealed},
	}
}

// planPing plans a ping where it comes in an envelope that is wrong; else it is
// answered before.
func planPing(context.Context, *call) (step, *Error) {
	return func(context.Context) (json.RawMessage, *Error) { return json.RawMessage(`{}`), nil }, nil
}

// catalog is the catalog of the servers as the call's client sees them.
func (c *call) catalog() catalog {
	return c.session.e.catalogs.of(c.client.key)
}

// planList answers with a whole list, on one page.
func planList(list *wire.List) func(context.Context, *call) (step, *Error) {
	return func(_ context.Context, c *call) (step, *Error) {
		if cursor, ok := c.message.params.str(pCursor); ok && cursor != "" {
			return nil, failure(jsonrpc.CodeParams, "invalid cursor: lists have one page")
		}
		return func(ctx context.Context) (json.RawMessage, *Error) {
			stock, err := c.catalog()[list].get(ctx, c.session.e)
			if err == nil {
				err = c.session.e.incomplete(ctx)
			}
			if err != nil {
				return nil, err
			}
			return c.session.e.hide(stock.result)
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
	if isArranged(c) {
		it, err := c.arranged(ctx, wire.Prompts)
		if err == nil && it == nil && c.server == "" {
			err = failure(jsonrpc.CodeParams, "unknown prompt: %s", name)
		}
		return err
	}
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
