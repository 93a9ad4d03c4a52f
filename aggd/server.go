package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A server is one definition, with a connection for each set of client
// capabilities that it is used with.
type server struct {
	agg    *aggregator
	shared bool   // one connection serves all clients
	state  string // of one that is not to be connected, with the fault that it has
	fault  error

	// mu guards the fields below.
	mu     sync.Mutex
	def    definition // of which AllowedTools, Pin and Source may change
	ups    map[string]*upstream
	closed bool
}

func newServer(agg *aggregator, def definition, shared bool) *server {
	s := &server{agg: agg, def: def, shared: shared, ups: make(map[string]*upstream)}
	s.state, s.fault = checkDefinition(def)
	if s.state == "" {
		s.ups[""] = newUpstream(agg, def, "", nil, def.Stdio())
	}
	return s
}

// upstream returns the connection for a client.
func (s *server) upstream(client string) (*upstream, error) {
	capabilities, declared := s.agg.capabilities(client)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != "":
		return nil, fmt.Errorf("server %s is %s%s", s.def.Name, s.state, because(s.fault))
	case s.closed:
		return nil, errClosed
	case s.shared:
		client = ""
	}
	if u := s.ups[client]; u != nil {
		return u, nil
	}
	if !declared {
		return nil, fmt.Errorf("unknown client: %.40s", client)
	}
	u := newUpstream(s.agg, s.def, client, capabilities, true)
	s.ups[client] = u
	return u, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// close ends all connections and waits.
func (s *server) close() {
	s.mu.Lock()
	s.closed = true
	ups := s.ups
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, u := range ups {
		all.Go(u.close)
	}
	all.Wait()
}

// definition returns the definition in force.
func (s *server) definition() definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.def
}

// redefine puts a definition in force that needs no other connection.
func (s *server) redefine(def definition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.def = def
}

// admit says why a tool may not be called.
func (s *server) admit(ctx context.Context, u *upstream, tool string) error {
	def := s.definition()
	if def.AllowedTools != nil && !slices.Contains(def.AllowedTools, tool) {
		return fmt.Errorf("tool not allowed: %s", tool)
	}
	pin, pinned := def.Pin[tool]
	if !pinned {
		return nil
	}
	for _, raw := range u.items(ctx, tools) {
		if rawjson.GetString(raw, "name") == tool && hash(raw) != pin {
			return fmt.Errorf("tool held back: %s changed since it was approved", tool)
		}
	}
	return nil
}

// visible returns those of a server's tools that exist for the host, and the
// hashes of those held back.
func (d definition) visible(items [][]byte) (shown [][]byte, held map[string]string) {
	for _, raw := range items {
		name := rawjson.GetString(raw, "name")
		if name == "" || d.AllowedTools != nil && !slices.Contains(d.AllowedTools, name) {
			continue
		}
		if pin, pinned := d.Pin[name]; pinned && pin != hash(raw) {
			if held == nil {
				held = make(map[string]string)
			}
			held[name] = hash(raw)
			continue
		}
		shown = append(shown, raw)
	}
	return shown, held
}

// status describes the server as list_servers gives it, by its connection for
// client or, where that was never made, by another.
func (s *server) status(client string) wire.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.def
	st := wire.Status{
		Name: d.Name, URL: d.URL, Enabled: d.Enabled, Source: d.Source, IsStdio: d.Stdio(),
		State: s.state,
	}
	if s.fault != nil {
		st.Error = s.fault.Error()
	}
	if u := s.best(client); u != nil {
		u.describe(d, &st)
	}
	return st
}

// best returns the connection that tells most of the server; mu is held.
func (s *server) best(client string) *upstream {
	best := s.ups[client]
	if best == nil || s.shared {
		best = s.ups[""]
	}
	if best == nil || best.known() {
		return best
	}
	for _, u := range s.ups {
		if u.known() {
			return u
		}
	}
	return best
}

// known reports whether the connection was ever made.
func (u *upstream) known() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.session.protocol != ""
}

// describe fills in what the connection knows.
func (u *upstream) describe(d definition, st *wire.Status) {
	u.mu.Lock()
	defer u.mu.Unlock()
	st.State = u.state
	st.Connected = u.state == wire.Connected
	if u.cause != nil && !errors.Is(u.cause, errIdle) {
		st.Error = u.cause.Error()
	}
	for _, k := range kinds {
		if err := u.shelves[k.index].err; err != nil && st.Error == "" {
			st.Error = err.Error()
		}
	}
	shown, held := d.visible(u.shelves[tools.index].items)
	st.ToolCount = len(shown)
	st.Held = held
	st.ResourceCount = len(u.shelves[resources.index].items)
	st.TemplateCount = len(u.shelves[templates.index].items)
	st.PromptCount = len(u.shelves[prompts.index].items)
	st.ProtocolVersion = u.session.protocol
	st.Capabilities = json.RawMessage(u.session.capabilities)
	st.ServerInfo = json.RawMessage(u.session.serverInfo)
	st.Instructions = u.session.instructions
}
