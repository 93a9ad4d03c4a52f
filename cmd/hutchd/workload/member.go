package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/vmcp"
	"hutch/profiles"
	"hutch/profiles/runconfig"
)

// servers are those that the group's endpoint has: its members of which it was said
// what they are, and those that only the config names.
func (g *Group) servers() (list []wire.Server) {
	c := g.Config()
	taken := make(map[string]bool)
	for _, s := range g.Members() {
		taken[s.Name] = true
		if s.Config() != nil {
			list = append(list, g.member(c, s))
		}
	}
	for _, b := range c.Backends {
		if !taken[b.Name] {
			list = append(list, g.backend(c, b))
		}
	}
	return list
}

// member returns a member as the endpoint is to have it: a session of its own endpoint,
// which holds back by itself what changed.
func (g *Group) member(c *vmcp.Config, s *Server) wire.Server {
	b := profiles.Box{Server: s.Name}
	if state := s.told(); !state.Live() {
		b.Wrong = notServed(s.Name, state).Error() // another definition than when it runs: what was connected ends
	} else if why := s.lacking(state); why != "" {
		b.Wrong = fmt.Sprintf("server %s is %s: %s", s.Name, state, why)
	}
	if s.Config().Server().IsRemote() {
		if _, err := g.exchange(s.Name); err != nil {
			b.Wrong = err.Error()
		}
	}
	return wire.Server{
		Name: s.Name, Enabled: true, Source: "groups", Keep: true, Pin: wire.PinNone, CallTimeout: wire.Duration(c.Timeout(s.Name)),
		ConnectTimeout: wire.Duration(c.Operational.Timeouts.BackendInit),
		Program:        program(s.Name, b),
		Ours:           true,
	}
}

// stopped says whether a server is one that was a member and was stopped, or removed: the
// session of it ended by that.
func (g *Group) stopped(server string) bool {
	if s, err := g.w.Server(server); err == nil {
		return !s.told().Live()
	}
	return !slices.ContainsFunc(g.Config().Backends, func(b vmcp.Backend) bool { return b.Name == server })
}

// program is what stands in the place of a server's program.
func program(server string, b profiles.Box) wire.Program {
	return wire.Program{Command: "server " + server, Sandbox: b.Text()}
}

// notServed is the error for who wants a session of a server that does not run.
func notServed(server string, state runconfig.State) error {
	return fmt.Errorf("server %s does not run (%s): start it, by echo start >servers/%[1]s/ctl", server, state)
}

// backend returns a remote server that is no member.
func (g *Group) backend(c *vmcp.Config, b vmcp.Backend) wire.Server {
	d := wire.Server{Name: b.Name, URL: b.URL, Enabled: true, Source: "groups", Keep: true, Health: wire.Duration(pingTime),
		ConnectTimeout: wire.Duration(c.Operational.Timeouts.BackendInit), CallTimeout: wire.Duration(c.Timeout(b.Name))}
	if b.Transport == "sse" {
		d.Type = "sse"
	}
	x, err := g.exchange(b.Name)
	switch {
	case err != nil:
		d.URL, d.Program = "", program(b.Name, profiles.Box{Wrong: err.Error()})
	case b.CABundlePath != "":
		d.URL, d.Program = "", program(b.Name, profiles.Box{Wrong: "caBundlePath cannot be had: the authorities that the machine trusts count"})
	case x != nil:
		return exchanged(d)
	}
	return withHeader(d, c.Strategy(b.Name))
}

// backendStatus is the line of a group's status on a server that only its config names.
func (g *Group) backendStatus(ctx context.Context, server string) string {
	circuit, st := g.breakers.State(server), wire.Status{State: wire.Stopped}
	if g.Serves() {
		var err error
		if st, err = g.MCP.Status(ctx, server); err != nil {
			st.State, st.Error = wire.Failed, fs.Text(err)
		}
	}
	line := fmt.Sprintf("backend %s %s circuit %s", server, st.State, circuit)
	if st.Error != "" {
		line += " error " + fs.QuoteLine(g.Hides(st.Error))
	}
	if len(st.LeftOut) > 0 {
		line += " left_out " + fs.QuoteLine(g.Hides(strings.Join(st.LeftOut, "; ")))
	}
	return line + "\n"
}

// asGroup returns a remote server with the header or the token that the config of its
// group has for it: its own endpoint sends that.
func (s *Server) asGroup(d wire.Server) wire.Server {
	g, err := s.w.Group(s.group())
	if err != nil {
		return d
	}
	if x, _ := g.exchange(s.Name); x != nil {
		return exchanged(d)
	}
	return withHeader(d, g.Config().Strategy(s.Name))
}

// withHeader returns a remote server that is sent a header, if it is to be told so who
// calls.
func withHeader(d wire.Server, s vmcp.Strategy) wire.Server {
	if s.Type != vmcp.HeaderInjection {
		return d
	}
	d.Headers = maps.Clone(d.Headers)
	if d.Headers == nil {
		d.Headers = make(map[string]string)
	}
	d.Headers[s.Header.Name] = s.Header.Ref()
	return d
}

// regrouped gives the server, if it runs, what its group's config has for it. It does
// not wait for that.
func (s *Server) regrouped() {
	if c := s.Config(); c != nil && c.Server().IsRemote() && s.wanted() {
		s.Later(func(ctx context.Context) error {
			defer s.wake() // it may have a fault now, of which the aggregator does not tell
			return s.Configure(ctx)
		})
	}
}
