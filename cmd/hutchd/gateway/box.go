package gateway

import (
	"cmp"

	"hutch/profiles"
	"hutch/profiles/permission"
)

// box says in what sandbox a server of a profile runs: by its permission profile,
// and what it may besides.
func box(s profiles.Server) (profiles.Box, error) {
	p, err := permission.Load(cmp.Or(s.Permissions, permission.BuiltinNone))
	if err != nil {
		return profiles.Box{}, err
	}
	own := *p
	own.Read, own.Write = append(own.Read[:len(own.Read):len(own.Read)], s.Read...), append(own.Write[:len(own.Write):len(own.Write)], s.Write...)
	g, err := own.Grant(permission.Terms{})
	if err != nil {
		return profiles.Box{}, err
	}
	b := profiles.Box{Image: s.Image, Net: g.Net, Network: g.Network, Mounts: g.Mounts, Shared: s.OneForAll}
	if len(s.Reach) > 0 {
		b.Net = profiles.NetProxy
		b.Network.Allow = append(b.Network.Allow, s.Reach...)
	}
	return b, nil
}
