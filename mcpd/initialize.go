package mcpd

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/frame"
)

// Servers get connections of their own for so many sets of client capabilities, of
// which the guest does not take the last ones from those who ask through the tree.
// Clients beyond that share the one that offers nothing.
const (
	maxKeys      = 16
	maxGuestKeys = 12
)

// maxCapabilities is how long a client's capabilities may be.
const maxCapabilities = 64 << 10

// hello takes in what a client says of itself.
func (s *session) hello(c *call) *Error {
	asked, ok := c.message.params.str(pProtocolVersion)
	if !ok {
		return missing("protocolVersion")
	}
	cl := &client{revision: jsonrpc.Agree(asked)}
	if c.version != frame.Version1 { // in which the host cannot ask the guest anything
		if err := cl.offer(s, c.message.params.get(pCapabilities)); err != nil {
			return err
		}
	}
	s.client.Store(cl)
	return nil
}

// key returns the aggregator's key for a set of client capabilities.
func (s *session) key(p wire.ClientParams) string {
	most := maxKeys
	if s.principal == "" {
		most = maxGuestKeys
	}
	key, err := p.Key()
	if err != nil || key == "" || !s.e.declare(key, p, most) {
		return ""
	}
	if c, err := s.e.child(); err == nil { // else Start declares it
		c.Client(p)
	}
	return key
}

// declare remembers a set of client capabilities, unless there are too many.
func (e *Endpoint) declare(key string, p wire.ClientParams, most int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.declared[key]; !known && len(e.declared) >= most {
		return false
	}
	e.declared[key] = p
	return true
}

// forgetClients forgets the sets of client capabilities that no session has.
func (e *Endpoint) forgetClients() {
	e.mu.Lock()
	defer e.mu.Unlock()
	had := make(map[string]bool)
	for s := range e.sessions {
		had[s.client.Load().key] = true
		if alone := s.alone.Load(); alone != nil {
			had[alone.key] = true
		}
	}
	maps.DeleteFunc(e.declared, func(key string, _ wire.ClientParams) bool { return !had[key] })
}

func planInitialize(_ context.Context, c *call) (step, *Error) {
	return func(ctx context.Context) (json.RawMessage, *Error) {
		b := append([]byte(`{"protocolVersion":`), quote(c.client.revision)...)
		b = append(c.session.e.about(ctx, c.stateless(), b), `,"serverInfo":`...)
		return append(append(b, serverInfo...), '}'), nil
	}, nil
}

// planDiscover plans a server/discover: what initialize tells, to clients that
// begin no session.
func planDiscover(_ context.Context, c *call) (step, *Error) {
	return func(ctx context.Context) (json.RawMessage, *Error) {
		b := append([]byte(`{"supportedVersions":`), jsonrpc.Spoken()...)
		return append(c.session.e.about(ctx, c.stateless(), b), '}'), nil
	}, nil
}

// serverInfo is what hutch tells clients of itself.
var serverInfo = append(append([]byte(`{"name":"hutch","title":"hutch","version":`), rawjson.Quote(fs.Version)...), '}')

// about appends what the servers offer and want clients to know, to those of
// 2026-07-28 or older ones.
func (e *Endpoint) about(ctx context.Context, newer bool, b []byte) []byte {
	all := e.settled(ctx, e.cfg.Settle)
	b = append(append(b, `,"capabilities":`...), offer(all, newer)...)
	extensions := union(all, "extensions", func(name string) bool { return newer || name != taskExtension })
	if e.cfg.Seal != nil {
		extensions = joinMembers(append(append([]byte(`{"seal":`), e.offerSeal()...), ','), extensions)
	}
	if more := rawjson.Inside(extensions); len(more) > 0 {
		b = append(append(append(b[:len(b)-1], `,"extensions":{`...), more...), "}}"...)
	}
	if text := instructions(all); text != "" {
		b = rawjson.AppendString(append(b, `,"instructions":`...), text)
	}
	return b
}

// settled returns the state of the servers. It waits a little for those that
// are just starting, because what they offer is asked only once.
func (e *Endpoint) settled(ctx context.Context, limit time.Duration) []wire.Status {
	c, err := e.child()
	if err != nil {
		return nil
	}
	all, err := c.Servers(ctx)
	if err != nil || !slices.ContainsFunc(all, unknown) {
		return all
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e.catalogs.of("")[wire.Tools].get(wait, e) // makes servers start, and waits for them
	if now, err := c.Servers(ctx); err == nil {
		all = now
	}
	return all
}

// unknown reports whether a server has yet to say what it offers.
func unknown(s wire.Status) bool {
	return s.Enabled && s.Capabilities == nil && (s.State == wire.Starting || s.State == wire.Stopped)
}

// offer returns the capabilities that the guest is told: what any server
// offers. What is not known yet is offered, since it cannot be later.
func offer(all []wire.Status, newer bool) []byte {
	has := func(path ...string) bool {
		return slices.ContainsFunc(all, func(s wire.Status) bool {
			if s.Capabilities == nil {
				return s.Enabled && s.State != wire.Unsupported && s.State != wire.Disabled
			}
			v := rawjson.Get(s.Capabilities, path...)
			return v != nil && string(v) != "false"
		})
	}
	b := []byte(`{"tools":{"listChanged":true},"resources":{`)
	if has("resources", "subscribe") {
		b = append(b, `"subscribe":true,`...)
	}
	b = append(b, `"listChanged":true},"prompts":{"listChanged":true}`...)
	if has("logging") {
		b = append(b, `,"logging":{}`...)
	}
	if has("completions") {
		b = append(b, `,"completions":{}`...)
	}
	if more := rawjson.Inside(union(all, "experimental", func(string) bool { return true })); len(more) > 0 {
		b = append(append(append(b, `,"experimental":{`...), more...), '}')
	}
	if !newer {
		b = append(b, offerTasks(all)...)
	}
	return append(b, '}')
}

// offerTasks is the capability of clients' tasks, if a server has it.
func offerTasks(all []wire.Status) []byte {
	has := func(path ...string) bool {
		return slices.ContainsFunc(all, func(s wire.Status) bool { return rawjson.Get(s.Capabilities, path...) != nil })
	}
	if !has("tasks", "requests", "tools", "call") {
		return nil
	}
	b := []byte(`,"tasks":{`)
	for _, word := range []string{"list", "cancel"} {
		if has("tasks", word) {
			b = append(b, `"`+word+`":{},`...)
		}
	}
	return append(b, `"requests":{"tools":{"call":{}}}}`...)
}

// union returns the members that servers have in a capability, and that pass the
// test. Of one that several have it is the first's.
func union(all []wire.Status, capability string, test func(name string) bool) []byte {
	b := []byte("{")
	seen := make(map[string]bool)
	for _, s := range all {
		found := rawjson.Get(s.Capabilities, capability)
		rawjson.Walk(found, func(key []byte, start, end int) {
			if name := string(key); !seen[name] && test(name) {
				seen[name] = true
				b = append(append(rawjson.AppendString(b, name), ':'), found[start:end]...)
				b = append(b, ',')
			}
		})
	}
	if len(b) == 1 {
		return []byte("{}")
	}
	b[len(b)-1] = '}'
	return b
}

// instructions joins what the servers want clients to know, each below its name. A
// member of a group has that already.
func instructions(all []wire.Status) string {
	var parts []string
	for _, s := range all {
		if text := strings.TrimSpace(s.Instructions); text != "" {
			head := "# " + s.Name + "\n\n"
			parts = append(parts, head+strings.TrimPrefix(text, head))
		}
	}
	return strings.Join(parts, "\n\n")
}
