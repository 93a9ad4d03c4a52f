package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/frame"
	"hutch/mcpd/policy"
)

// Items returns what the VM's agent can call, read or get, as far as that is known:
// no server is asked.
func (e *Endpoint) Items(list *wire.List) []wire.Item {
	s := e.catalogs.of("")[list]
	var items []wire.Item
	for _, it := range s.known(e).items {
		if s.shows(&it) {
			it.Server = ledgerName(it.Server)
			items = append(items, it)
		}
	}
	return items
}

// Item returns the one of Items that the agent calls name, or one that the policy keeps
// from it: who calls that is told by which rule.
func (e *Endpoint) Item(list *wire.List, name string) (wire.Item, bool) {
	s := e.catalogs.of("")[list]
	it := s.known(e).index[name]
	if it == nil || it.Server == dispatch.Server && it.Name == dispatch.Tool && !e.runs() {
		return wire.Item{}, false
	}
	found := *it
	found.Server = ledgerName(it.Server)
	return found, true
}

// knownTime is how long Known waits for servers.
const knownTime = 5 * time.Second

// Known waits until the servers were asked once what they offer: of a machine
// that has just started nothing of that is known yet.
func (e *Endpoint) Known(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, knownTime)
	defer cancel()
	for _, s := range e.catalogs.of("") {
		s.last(ctx, e)
	}
}

// Settled waits until the servers are connected or are known not to be, and
// their lists are those of now; as long as Known at most.
func (e *Endpoint) Settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, knownTime)
	defer cancel()
	e.settled(ctx, knownTime)
	for _, s := range e.catalogs.of("") {
		s.get(ctx, e)
	}
}

// statusTime is how long ServersText waits for the aggregator.
const statusTime = 2 * time.Second

// ServersText returns a line for each server: name, state, then pairs of key
// and value.
func (e *Endpoint) ServersText() string {
	ctx, cancel := context.WithTimeout(e.ctx, statusTime)
	defer cancel()
	var b strings.Builder
	c, err := e.child()
	var all []wire.Status
	if err == nil {
		all, err = c.Servers(ctx)
	}
	if err != nil {
		for _, s := range e.rules.Load().list {
			fmt.Fprintf(&b, "%s %s error %s\n", fs.QuoteLine(s.Name), wire.Stopped, fs.QuoteLine(err.Error()))
		}
		return b.String()
	}
	held := make(map[string]int)
	for _, it := range e.Held() {
		held[it.Server]++
	}
	for _, s := range all {
		transport := "http"
		if s.IsStdio {
			transport = "stdio"
		}
		fmt.Fprintf(&b, "%s %s transport %s tools %d resources %d templates %d prompts %d",
			fs.QuoteLine(s.Name), s.State, transport, s.ToolCount, s.ResourceCount, s.TemplateCount, s.PromptCount)
		if s.ProtocolVersion != "" {
			fmt.Fprintf(&b, " protocol %s", fs.QuoteLine(s.ProtocolVersion))
		}
		if n := held[s.Name]; n > 0 {
			fmt.Fprintf(&b, " held %d", n)
		}
		if len(s.LeftOut) > 0 {
			fmt.Fprintf(&b, " left_out %s", fs.QuoteLine(e.redact(strings.Join(s.LeftOut, "; "))))
		}
		if s.Error != "" {
			fmt.Fprintf(&b, " error %s", fs.QuoteLine(e.redact(s.Error)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Status returns what is known of a server; it fails when there is none of that
// name, or nobody can be asked.
func (e *Endpoint) Status(ctx context.Context, server string) (wire.Status, error) {
	c, err := e.child()
	if err != nil {
		return wire.Status{}, err
	}
	all, err := c.Servers(ctx)
	if err != nil {
		return wire.Status{}, err
	}
	for _, s := range all {
		if s.Name == server {
			return s, nil
		}
	}
	return wire.Status{}, fmt.Errorf("%w: server %s", fs.ErrNotExist, server)
}

// Missing says what is wrong with the server of a tool, prompt or resource of this name,
// which may not be connected, or not give a list; "" if nothing is, or there is no such
// server. If an Arrange gave the names, it is the first server that something is wrong with.
func (e *Endpoint) Missing(ctx context.Context, name string) string {
	server, _, _ := jsonrpc.SplitName(name)
	any := e.arrange.Load() != nil
	c, err := e.child()
	if server == "" && !any || err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	all, _ := c.Servers(ctx)
	for _, s := range all {
		if (any || s.Name == server) && s.State != wire.Connected && s.Error != "" {
			return fmt.Sprintf("server %s: %s; see mcp/servers", s.Name, e.redact(s.Error))
		}
	}
	return ""
}

// Policy returns the policy in force, nil if there is none yet.
func (e *Endpoint) Policy() *policy.Policy { return e.rules.Load().policy }

// A Caller is who asks for something through the tree.
type Caller struct {
	Process   string // what the ledger shows as the process that asked
	Principal string
}

// Call calls a tool as a guest's program would, through policy and ledger.
// An error object of the server is an *Error.
func (e *Endpoint) Call(ctx context.Context, who Caller, tool string, args json.RawMessage) (json.RawMessage, error) {
	return e.request(ctx, who, wish{"tools/call", "name", tool, args})
}

// ReadResource reads a resource as a guest's program would.
func (e *Endpoint) ReadResource(ctx context.Context, who Caller, uri string) (json.RawMessage, error) {
	return e.request(ctx, who, wish{"resources/read", "uri", uri, nil})
}

// GetPrompt gets a prompt as a guest's program would.
func (e *Endpoint) GetPrompt(ctx context.Context, who Caller, name string, args json.RawMessage) (json.RawMessage, error) {
	return e.request(ctx, who, wish{"prompts/get", "name", name, args})
}

// A wish is a request through the tree: what it is about is the value of a member of
// its params.
type wish struct {
	method, member, value string
	args                  json.RawMessage
}

func (e *Endpoint) request(ctx context.Context, who Caller, w wish) (json.RawMessage, error) {
	b := append([]byte(`{`), quote(w.member)...)
	b = rawjson.AppendString(append(b, ':'), w.value)
	if len(w.args) > 0 {
		if err := rawjson.Check(w.args); err != nil {
			return nil, fmt.Errorf("%w: arguments: %w", fs.ErrInvalid, err)
		}
		b = append(append(b, `,"arguments":`...), w.args...)
	}
	b = rawjson.OneLine(append(b, '}'))
	p, perr := scanParams(b)
	if perr != nil {
		return nil, perr
	}
	s := e.local
	c := &call{
		session: s, client: s.client.Load(), level: noLevel, process: frame.SanitizeName(who.Process), who: who.Principal,
		message: message{jsonrpc.Message{Method: w.method}, p}, begun: time.Now(), sent: len(b), trace: traceOf(&p),
	}
	if why := s.begin(c); why != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrBusy, why)
	}
	defer s.end(c)
	stop := context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
	defer stop()
	result, rerr := c.run()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case rerr == nil:
		return result, nil
	case c.verdict.denied && c.verdict.rule == policy.RuleUnregistered:
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, rerr)
	case c.verdict.denied:
		return nil, fmt.Errorf("%w: %w", fs.ErrPermission, rerr)
	case rerr.Code == jsonrpc.CodeTimeout && rerr.Sent == nil: // of a server it is any error
		return nil, fmt.Errorf("%w: %w", fs.ErrTimedOut, rerr)
	case rerr.Code == jsonrpc.CodeBusy && rerr.Sent == nil: // ours, not a server's
		return nil, fmt.Errorf("%w: %w", fs.ErrBusy, rerr)
	}
	return nil, rerr
}
