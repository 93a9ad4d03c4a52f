package workload

import (
	"errors"
	"fmt"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// definition returns a server as its endpoint's aggregator is to have it.
func definition(s *runconfig.Server, t permission.Terms) (wire.Server, error) {
	d := wire.Server{Name: s.Name, Enabled: true, Source: "servers", Keep: true}
	if !s.NoHealth {
		d.Health = wire.Duration(pingTime)
	}
	if s.IsRemote() {
		return remote(d, s), nil
	}
	b, err := boxOf(s, t)
	if err != nil {
		return d, err
	}
	if p, ok := packOf(s.Source); ok {
		d.Command = p.program
	} else if b.Image = imageOf(s.Source); b.Image == "" {
		return d, fmt.Errorf("%w: source %s: no entry of the registry is called so", fs.ErrNotExist, s.Source)
	}
	d.Args = s.Args
	d.Env = s.Environment()
	for _, secret := range s.Secrets {
		d.Env[secret.Variable] = secret.Reference.String()
	}
	d.Sandbox = b.Text()
	return listening(d, s), nil
}

// remote adds where a server is that runs elsewhere, and what it is sent.
func remote(d wire.Server, s *runconfig.Server) wire.Server {
	d = withHeaders(d, s)
	d.URL = s.Source.Name
	if s.Transport == runconfig.SSE {
		d.Type = "sse"
	}
	if byLogin(s) {
		d.BearerToken, d.Renewed = loginToken, true
	} else if s.Auth != nil && s.Auth.Bearer.Scheme != "" {
		d.BearerToken = s.Auth.Bearer.String()
	}
	return d
}

// boxOf returns the sandbox of a server.
func boxOf(s *runconfig.Server, t permission.Terms) (profiles.Box, error) {
	p, err := s.Permissions()
	if err != nil {
		return profiles.Box{}, err
	}
	g, err := p.Grant(t)
	if err != nil {
		return profiles.Box{}, err
	}
	more, err := permission.Folders(s.Mounts, nil)
	if err != nil {
		return profiles.Box{}, err
	}
	if len(g.Callers) > 0 {
		return profiles.Box{}, errors.New("permission profile: network.inbound: who may call the server cannot be said yet: remove it")
	}
	return profiles.Box{Net: profiles.NetProxy, Network: g.Network, Mounts: append(g.Mounts, more...), RAM: s.RAM, Disk: s.Disk}, nil
}
