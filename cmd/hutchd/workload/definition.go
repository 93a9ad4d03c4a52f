package workload

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// definition returns a server as its endpoint's aggregator is to have it.
func definition(s *runconfig.Server, t permission.Terms) (wire.Server, error) {
	d := wire.Server{Name: s.Name, Enabled: true, Source: "servers", Keep: true, Health: wire.Duration(pingTime)}
	if s.IsRemote() {
		return remote(d, s)
	}
	words, hosts, err := command(s.Source)
	if err != nil {
		return d, err
	}
	b, err := boxOf(s, hosts, t)
	if err != nil {
		return d, err
	}
	d.Command, d.Args = words[0], append(words[1:], s.Args...)
	d.Env = s.Environment()
	for _, secret := range s.Secrets {
		d.Env[secret.Variable] = secret.Reference.String()
	}
	d.Sandbox = b.Text()
	return listening(d, s), nil
}

// termsOf returns what the profile of servers says of permission profiles.
func termsOf(p *profiles.Profile) permission.Terms { return permission.Terms{Privileged: p.Privileged} }

// remote adds where a server is that runs elsewhere, and what it is sent.
func remote(d wire.Server, s *runconfig.Server) (wire.Server, error) {
	d = withHeaders(d, s)
	d.URL = s.Source.Name
	if s.Transport == runconfig.SSE {
		d.Type = "sse"
	}
	if a := s.Auth; a != nil {
		if a.Bearer.Scheme == "" {
			return d, fmt.Errorf("%w: OAuth is not there yet: give a bearer token", fs.ErrUnsupported)
		}
		d.BearerToken = a.Bearer.String()
	}
	return d, nil
}

// command returns the words that start what a source names, and the hosts that it
// is had from.
func command(s runconfig.Source) (words, hosts []string, err error) {
	name := s.Name
	if s.Version != "" {
		name += "@" + s.Version
	}
	switch s.Kind {
	case runconfig.NPX:
		return []string{"npx", "-y", name}, []string{hostOf("npm_config_registry", "https://registry.npmjs.org/")}, nil
	case runconfig.UVX:
		if s.Extras != "" {
			name = strings.Replace(name, s.Name, s.Name+"["+s.Extras+"]", 1)
		}
		return []string{"uvx", name}, []string{hostOf("UV_DEFAULT_INDEX", "https://pypi.org/simple"), "files.pythonhosted.org"}, nil
	case runconfig.Go:
		if s.Version == "" {
			name += "@latest"
		}
		return []string{"go", "run", name}, []string{hostOf("GOPROXY", "https://proxy.golang.org"), "sum.golang.org", "storage.googleapis.com"}, nil
	}
	return nil, nil, fmt.Errorf("%w: source %s: images cannot be run as servers yet: npx://, uvx://, go:// and https:// can", fs.ErrUnsupported, s)
}

// hostOf returns the host of the URL that a variable of hutchd has, or of the other.
func hostOf(variable, otherwise string) string {
	for _, text := range []string{os.Getenv(variable), otherwise} {
		text, _, _ = strings.Cut(text, ",")
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			return u.Hostname()
		}
	}
	return ""
}

// boxOf returns the sandbox of a server that is had from hosts.
func boxOf(s *runconfig.Server, hosts []string, t permission.Terms) (profiles.Box, error) {
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
	b := profiles.Box{Net: profiles.NetProxy, Network: g.Network, Mounts: append(g.Mounts, more...)}
	b.Network.Allow = append(b.Network.Allow, hosts...)
	b.Network.Private = hosts // a mirror may be inside
	return b, nil
}
