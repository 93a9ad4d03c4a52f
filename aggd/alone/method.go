package alone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// A method is one that the client may call: with one of the two that answer it.
type method struct {
	all    bool // it is there with Config.All only
	quick  func(*face, jsonrpc.Message) (json.RawMessage, *jsonrpc.Error)
	answer func(*face, context.Context, jsonrpc.Message) (json.RawMessage, *jsonrpc.Error)
}

var methods map[string]method

func init() { // they mention the table
	methods = map[string]method{
		"initialize": {quick: (*face).initialize},
		"ping":       {quick: func(*face, jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) { return []byte("{}"), nil }},
		"tools/list": {answer: lister(wire.Tools)},
		"tools/call": {answer: (*face).callTool},

		"resources/list":           {all: true, answer: lister(wire.Resources)},
		"resources/templates/list": {all: true, answer: lister(wire.Templates)},
		"resources/read":           {all: true, answer: named("Resource", "uri")},
		"resources/subscribe":      {all: true, answer: named("Resource", "uri")},
		"resources/unsubscribe":    {all: true, answer: named("Resource", "uri")},
		"prompts/list":             {all: true, answer: lister(wire.Prompts)},
		"prompts/get":              {all: true, answer: named("Prompt", "name")},
		"completion/complete":      {all: true, answer: (*face).complete},
		"logging/setLevel":         {all: true, answer: (*face).setLevel},
	}
}

// What the client is told that there is, without All and with it.
const (
	plain = `{"tools":{}}`
	whole = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`
)

// initialize answers initialize.
func (f *face) initialize(q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	offered := rawjson.Get(q.Params, "protocolVersion")
	if !rawjson.IsString(offered) {
		return nil, jsonrpc.Errorf(jsonrpc.CodeParams, "Invalid params: protocolVersion must be a string")
	}
	revision := jsonrpc.Agree(rawjson.String(offered))
	f.batches.Store(revision == jsonrpc.Batching)
	capabilities := plain
	if f.cfg.All {
		capabilities = whole
	}
	b := rawjson.AppendString([]byte(`{"protocolVersion":`), revision)
	b = append(append(b, `,"capabilities":`...), capabilities...)
	b = rawjson.AppendString(append(b, `,"serverInfo":{"name":"aggd","version":`...), fs.Version)
	return append(b, "}}"...), nil
}

// callTool answers tools/call.
func (f *face) callTool(ctx context.Context, q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	name, wrong := param(q, "name")
	if wrong != nil {
		return nil, wrong
	}
	if !f.cfg.Safe && !strings.Contains(name, f.cfg.Separator) {
		return nil, unprefixed("Tool", "name", name)
	}
	s, own, found := f.tool(ctx, name)
	if !found {
		err := notFound("Tool", name)
		if s != nil {
			err.Message += because(s, f.status(ctx, s))
		}
		return nil, err
	}
	return f.forward(ctx, q, s, rawjson.Quote(own), "name")
}

// because says why a server may not have what it is said to have: it gave no list.
func because(s *Server, st wire.Status) string {
	if st.State != wire.Degraded {
		return ""
	}
	return fmt.Sprintf("; server %s: %s", s.Key, st.Error)
}

// named answers a request for what a param names: a thing of a server's, which is
// asked whether there is such a thing.
func named(thing, member string) func(*face, context.Context, jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	return func(f *face, ctx context.Context, q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
		return f.route(ctx, q, thing, member)
	}
}

// complete answers completion/complete, for an argument of what ref names.
func (f *face) complete(ctx context.Context, q jsonrpc.Message) (json.RawMessage, *jsonrpc.Error) {
	if rawjson.GetString(q.Params, "ref", "type") == "ref/resource" {
		return f.route(ctx, q, "Resource", "ref", "uri")
	}
	return f.route(ctx, q, "Prompt", "ref", "name")
}

// route passes a request on to the server that the param at path is of.
func (f *face) route(ctx context.Context, q jsonrpc.Message, thing string, path ...string) (json.RawMessage, *jsonrpc.Error) {
	name, wrong := param(q, path...)
	if wrong != nil {
		return nil, wrong
	}
	if !strings.Contains(name, f.cfg.Separator) {
		return nil, unprefixed(thing, path[len(path)-1], name)
	}
	s, own := f.names.split(name)
	if s == nil {
		return nil, notFound(thing, name)
	}
	return f.forward(ctx, q, s, rawjson.Quote(own), path...)
}

// param returns a param that must be a text.
func param(q jsonrpc.Message, path ...string) (string, *jsonrpc.Error) {
	value := rawjson.Get(q.Params, path...)
	if !rawjson.IsString(value) {
		return "", jsonrpc.Errorf(jsonrpc.CodeParams, "Invalid params: %s must be a string", strings.Join(path, "."))
	}
	return rawjson.String(value), nil
}

func unprefixed(thing, member, name string) *jsonrpc.Error {
	return jsonrpc.Errorf(jsonrpc.CodeParams, "%s %s must be prefixed with server key: %s", thing, member, name)
}

// notFound is the reference's error for a tool, and MCP's for the others.
func notFound(thing, name string) *jsonrpc.Error {
	code := map[string]int{"Tool": jsonrpc.CodeMethod, "Prompt": jsonrpc.CodeParams, "Resource": jsonrpc.CodeResource}[thing]
	return jsonrpc.Errorf(code, "%s not found: %s", thing, name)
}

// forward makes a request of a server, with own in place of the name at path.
func (f *face) forward(ctx context.Context, q jsonrpc.Message, s *Server, own []byte, path ...string) (json.RawMessage, *jsonrpc.Error) {
	if s.Wrong != nil {
		e := jsonrpc.Errorf(jsonrpc.CodeInternal, "server %s is not connected: %v", s.Key, s.Wrong)
		e.Data = wire.NotSent.Data()
		return nil, e
	}
	a, err := f.child.Call(ctx, wire.Call{Server: s.Name, Method: q.Method, Params: rawjson.Set(q.Params, own, path...), Progress: f.progress})
	switch {
	case err != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: said(err), Data: a.Fate.Data()}
	case a.Error != nil:
		return nil, jsonrpc.Received(a.Error)
	}
	return a.Result, nil
}

// said returns the text of an error of the aggregator, for a client to whom the kinds
// of hutch's errors mean nothing.
func said(err error) string {
	text := err.Error()
	if errors.Is(err, fs.ErrIO) {
		text = strings.TrimPrefix(text, fs.ErrIO.Error()+": ")
	}
	return text
}
