package gateway

import (
	"cmp"
	"errors"
	"os"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
)

// place says where the program of a profile's server runs: in a sandbox, or on the
// host; or that a session of another server is in its place.
func place(s profiles.Server, t permission.Terms) wire.Server {
	switch {
	case s.Session != "":
		s.Command, s.Sandbox = "servers/"+s.Session, profiles.Box{Server: s.Session}.Text()
	case s.Command == "" && s.Image == "":
	case s.Sandboxed:
		b, err := box(s, t)
		if err != nil {
			b.Wrong = fs.Text(err)
		}
		s.Sandbox = b.Text()
	case s.RunAs == "" && os.Geteuid() == 0:
		s.Fault = fs.Text(errNobody)
	}
	return s.Server
}

// errNobody is why root starts no program of the host that nobody said more of.
var errNobody = errors.New(`sandbox = false has the program run on the host, where hutchd is root: say who it is to be, run_as = "USER"; root, too, is to be said`)

// box says in what sandbox a server of a profile runs: by its permission profile,
// and what it may besides.
func box(s profiles.Server, t permission.Terms) (profiles.Box, error) {
	p, err := permission.Load(cmp.Or(s.Permissions, permission.BuiltinNone))
	if err != nil {
		return profiles.Box{}, err
	}
	own := *p
	own.Read, own.Write = append(own.Read[:len(own.Read):len(own.Read)], s.Read...), append(own.Write[:len(own.Write):len(own.Write)], s.Write...)
	g, err := own.Grant(t)
	if err != nil {
		return profiles.Box{}, err
	}
	b := profiles.Box{
		Image: s.Image, Net: g.Net, Network: g.Network, Mounts: g.Mounts, RAM: s.RAM, Disk: s.Disk, Shared: s.OneForAll,
		Says: profiles.Says{Layer: s.Layer, Source: s.Source, Read: s.Read, Allow: s.Reach},
	}
	if len(s.Reach) > 0 {
		b.Net = profiles.NetProxy
		b.Network.Allow = append(b.Network.Allow, s.Reach...)
	}
	return b, nil
}
