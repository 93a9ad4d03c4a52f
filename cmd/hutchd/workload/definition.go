package workload

import (
	"fmt"
	"os"
	"path/filepath"

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
	} else if s.Source.Kind == runconfig.Own {
		if d.Command = s.Source.Name; !isProgram(d.Command) {
			return d, fmt.Errorf("%w: %s is no program of this machine, a file that may be run; a package of Go is go://FOLDER", fs.ErrNotExist, fs.QuoteLine(d.Command))
		}
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
	b := profiles.Box{Net: profiles.NetProxy, Network: g.Network, Mounts: append(g.Mounts, permission.Folders(s.Mounts)...), RAM: s.RAM, Disk: s.Disk}
	if s.Source.Kind == runconfig.Own {
		var more []profiles.Mount
		more, err = own(s.Source.Name, b.Mounts)
		b.Mounts = append(b.Mounts, more...)
	}
	return b, err
}

// own returns the mounts that a server needs, besides those that it has, whose program is at
// a path of this machine: for reading only.
func own(path string, mounts view) (more []profiles.Mount, err error) {
	for _, dir := range mounts.lacks(path) {
		if isWide(dir) {
			return nil, fmt.Errorf("%w: "+tooWide, fs.ErrNotPermitted, fs.QuoteLine(dir))
		}
		more = append(more, profiles.Mount{Host: dir, Guest: dir, ReadOnly: true})
	}
	return more, nil
}

// isProgram tells whether this machine has a file at a path that may be run.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// moduleOf returns the folder of the module of Go that a folder is in, or the folder.
func moduleOf(dir string) string {
	for up := dir; up != "/"; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return up
		}
	}
	return dir
}
