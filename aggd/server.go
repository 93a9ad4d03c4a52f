package aggd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/wire"
)

// A server is one definition, with a connection for each set of client
// capabilities that it is used with.
type server struct {
	agg    *aggregator
	state  string // of one that is not to be connected, with the fault that it has
	fault  error
	bearer *bearer                    // its token, if the host replaces that; nil: it stays
	served *served                    // its program, if it is asked over HTTP and has one; nil: it has none
	era    atomic.Uint32              // what it was seen to speak
	def    atomic.Pointer[definition] // of which AllowedTools and Source may change

	mu     sync.Mutex // guards what follows
	ups    map[string]*upstream
	closed bool
}

func newServer(agg *aggregator, def definition) *server {
	s := &server{agg: agg, ups: make(map[string]*upstream)}
	given := def
	s.def.Store(&given)
	switch {
	case agg.cfg.Programs == nil:
		def.UnsupportedStdio = def.UnsupportedStdio || def.Stdio() || def.Descriptor != ""
	case !def.Stdio() && def.Descriptor != "":
		s.served = newServed(agg.cfg.Programs, def.Descriptor)
		def.served = s.served
	}
	if def.Renewed {
		s.bearer = newBearer(def.BearerToken, func() { agg.tell("notification", 0, "", def.Name, wire.StateChanged, nil, nil) })
		def.bearer = s.bearer
	}
	s.state, s.fault = checkDefinition(def)
	if s.state == "" {
		s.ups[""] = newUpstream(agg, def, &s.era, "", wire.ClientParams{Stateless: true}, def.Stdio() && !def.Keep)
	}
	return s
}

// upstream returns the connection for a client.
func (s *server) upstream(client string) (*upstream, error) {
	offered, declared := s.agg.capabilities(client)
	d := s.def.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != "":
		return nil, fmt.Errorf("server %s is %s%s", d.Name, s.state, because(s.fault))
	case s.closed:
		return nil, errClosed
	case d.Shared:
		client = ""
	}
	if u := s.ups[client]; u != nil {
		return u, nil
	}
	if !declared {
		return nil, fmt.Errorf("unknown client: %.40s", client)
	}
	def := *d
	def.served, def.bearer = s.served, s.bearer
	u := newUpstream(s.agg, def, &s.era, client, offered, true)
	u.setLate(s.late())
	s.ups[client] = u
	return u, nil
}

// redefine takes a definition that needs no other connection. Who failed may not fail
// with another token.
func (s *server) redefine(def definition) {
	s.def.Store(&def)
	if s.bearer == nil || !s.bearer.set(def.BearerToken) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.ups {
		select {
		case u.kick <- struct{}{}:
		default:
		}
	}
}

// late reports whether a list has waited in vain for one of the connections, so that
// none waits for another; mu is held.
func (s *server) late() bool {
	for _, u := range s.ups {
		u.mu.Lock()
		late := u.late
		u.mu.Unlock()
		if late {
			return true
		}
	}
	return false
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

// admit says why a tool may not be called.
func (s *server) admit(params []byte) error {
	if d := s.def.Load(); d.AllowedTools != nil {
		if tool := text(params, "name"); !slices.Contains(d.AllowedTools, tool) {
			return fmt.Errorf("tool not allowed: %s", tool)
		}
	}
	return nil
}

// visible returns those of a server's tools that exist for the host.
func (d definition) visible(items [][]byte) (shown [][]byte) {
	for _, raw := range items {
		name := text(raw, "name")
		if name != "" && (d.AllowedTools == nil || slices.Contains(d.AllowedTools, name)) {
			shown = append(shown, raw)
		}
	}
	return shown
}

// status describes the server as list_servers gives it, by its connection for
// client or, where that was never made, by another.
func (s *server) status(client string) wire.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.def.Load()
	st := d.Status(s.state, s.fault)
	if u := s.best(client); u != nil {
		u.describe(*d, &st)
		for _, other := range s.ups {
			if why := other.failing(); why != nil && other != u && st.Error == "" {
				st.Error = "an instance of it, for clients of other capabilities: " + why.Error()
				if st.Connected {
					st.State = wire.Degraded
				}
			}
		}
	}
	if s.bearer != nil {
		s.bearer.describe(&st)
	}
	return st
}

// best returns the connection that tells most of the server; mu is held.
func (s *server) best(client string) *upstream {
	best := s.ups[client]
	if best == nil || s.def.Load().Shared {
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
	for _, why := range []error{u.cause, u.ill} {
		if refused, ok := errors.AsType[*httpError](why); ok && refused.status == http.StatusUnauthorized && !d.Renewed {
			st.Refused = wire.TokenHash(d.BearerToken)
		}
	}
	if st.Connected && u.ill != nil {
		st.State, st.Error = wire.Unhealthy, u.ill.Error()
	}
	for _, l := range wire.Lists {
		if err := u.lists[l].err; err != nil && st.Error == "" {
			st.Error = err.Error()
			if st.Connected {
				st.State = wire.Degraded
			}
		}
		st.LeftOut = append(st.LeftOut, u.lists[l].left...)
	}
	st.ToolCount = len(d.visible(u.lists[wire.Tools].items))
	st.ResourceCount = len(u.lists[wire.Resources].items)
	st.TemplateCount = len(u.lists[wire.Templates].items)
	st.PromptCount = len(u.lists[wire.Prompts].items)
	st.ProtocolVersion = u.session.protocol
	st.Capabilities = json.RawMessage(u.session.capabilities)
	st.ServerInfo = json.RawMessage(u.session.serverInfo)
	st.Instructions = u.session.instructions
}

// failing returns why the connection could not be made lately, or why it lacks a list;
// nil if neither is so.
func (u *upstream) failing() error {
	u.mu.Lock()
	state, cause, recent := u.state, u.cause, time.Since(u.tried) < u.def.idleTimeout()
	u.mu.Unlock()
	switch {
	case state == wire.Failed && recent:
		return cause
	case state == wire.Connected:
		return u.unlisted()
	}
	return nil
}
