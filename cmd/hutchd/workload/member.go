package workload

import (
	"fmt"
	"maps"

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
			list = append(list, backend(c, b))
		}
	}
	return list
}

// member returns a member as the endpoint is to have it: a session of its own endpoint,
// which holds back by itself what changed.
func (g *Group) member(c *vmcp.Config, s *Server) wire.Server {
	d := wire.Server{
		Name: s.Name, Enabled: true, Source: "groups", Keep: true, Pin: wire.PinNone, CallTimeout: wire.Duration(c.Timeout(s.Name)),
		Program: wire.Program{Command: s.String(), Sandbox: profiles.Box{Server: s.Name}.Text()},
	}
	if state := s.told(); !state.Live() {
		d.Fault = fs.Text(notServed(s.Name, state))
	}
	if c.Strategy(s.Name).Type == vmcp.TokenExchange {
		d.Fault = noToken
	}
	return d
}

// noToken is the fault of a server that is to have a token of who calls.
const noToken = "token_exchange needs the token of who calls, and nobody who can call brings one"

// notServed is the error for who wants a session of a server that does not run.
func notServed(server string, state runconfig.State) error {
	return fmt.Errorf("%w: server %s is %s: start it, by echo start >servers/%[2]s/ctl", fs.ErrBusy, server, state)
}

// backend returns a remote server that is no member.
func backend(c *vmcp.Config, b vmcp.Backend) wire.Server {
	d := wire.Server{Name: b.Name, URL: b.URL, Enabled: true, Source: "groups", Keep: true, CallTimeout: wire.Duration(c.Timeout(b.Name))}
	if b.Transport == "sse" {
		d.Type = "sse"
	}
	if b.CABundlePath != "" {
		d.Fault = "caBundlePath cannot be had: the authorities that the machine trusts count"
	}
	return authorized(d, c.Strategy(b.Name))
}

// withHeader returns a remote server with the header that the config of its group has
// for it: its own endpoint sends that.
func (s *Server) withHeader(d wire.Server) wire.Server {
	g, err := s.w.Group(s.group())
	if err != nil {
		return d
	}
	if by := g.Config().Strategy(s.Name); by.Type == vmcp.HeaderInjection {
		return authorized(d, by)
	}
	return d
}

// authorized returns a remote server that is told who calls.
func authorized(d wire.Server, s vmcp.Strategy) wire.Server {
	switch s.Type {
	case vmcp.HeaderInjection:
		d.Headers = maps.Clone(d.Headers)
		if d.Headers == nil {
			d.Headers = make(map[string]string)
		}
		d.Headers[s.Header.Name] = s.Header.Ref()
	case vmcp.TokenExchange:
		d.Fault = noToken
	}
	return d
}

// regrouped gives the server, if it runs, what its group's config has for it. It does
// not wait for that.
func (s *Server) regrouped() {
	if c := s.Config(); c != nil && c.Server().IsRemote() && s.wanted() {
		s.Later(s.Configure)
	}
}
