package permission

import (
	"fmt"
	"slices"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles"
)

// A Grant is what a profile gives to the VM of a server.
type Grant struct {
	Net     string       // the VM's net: profiles.NetNone or profiles.NetProxy
	Network wire.Network // what the proxy lets it reach, by the name of the profile
	Mounts  []profiles.Mount
}

// Terms are what others than the permission profile say of what it may give.
type Terms struct {
	// Private are hosts, addresses and networks that may be reached, if the profile
	// allows them, though they are not public.
	Private []string
	// Privileged says that corp allows profiles that ask to be privileged. The
	// server gets no more for it.
	Privileged bool
}

// TermsOf returns what the profile of a VM, or of servers, says of permission profiles.
func TermsOf(p *profiles.Profile) Terms {
	return Terms{Private: p.Network.Private, Privileged: p.Privileged}
}

// Grant returns what the profile means. It fails with fs.ErrPermission where the
// profile asks for what the terms do not allow.
//
// Network.Private has what the terms say alone: a profile may come from a registry,
// and the host reaches more than its writer knows.
func (p *Profile) Grant(t Terms) (*Grant, error) {
	if p.Privileged && !t.Privileged {
		return nil, fmt.Errorf("%w: permission profile: privileged: no server is, and corp does not allow to ask for it: remove it", fs.ErrPermission)
	}
	wrong := func(f *Fault) error { return fmt.Errorf("%w: permission profile: %w", fs.ErrInvalid, f) }
	mounts, fault := p.mounts()
	if fault != nil {
		return nil, wrong(fault)
	}
	allow, fault := p.Network.patterns()
	if fault != nil {
		return nil, wrong(fault)
	}
	g := &Grant{Net: profiles.NetNone, Network: wire.Network{Profile: p.Name, Allow: allow, Private: t.Private}}
	if len(allow) > 0 {
		g.Net = profiles.NetProxy
	}
	g.Mounts = Folders(mounts)
	return g, nil
}

// Folders returns mounts as a VM has them.
func Folders(list []Mount) (all []profiles.Mount) {
	for _, m := range list {
		all = append(all, profiles.Mount{Host: m.Host, Guest: m.Guest, ReadOnly: m.ReadOnly})
	}
	return all
}

// Notes tells what in the profile means something else here than its words say: the
// path of the field, and what it means.
func (p *Profile) Notes() []Fault {
	var notes []Fault
	if p.Network == nil || p.Network.Outbound == nil || p.Network.Mode == "none" {
		return nil
	}
	out := p.Network.Outbound
	if slices.Contains(out.Transports, "udp") {
		notes = append(notes, *faultf("network.outbound.allow_transport", "has udp, over which no server reaches anything"))
		if !slices.Contains(out.Transports, "tcp") {
			return notes
		}
	}
	switch {
	case out.All:
		notes = append(notes, *faultf("network.outbound.insecure_allow_all", "reaches ports 80 and 443 of public hosts, and those in allow_port"))
	case len(out.Ports) > 0 && len(out.Hosts) == 0:
		notes = append(notes, *faultf("network.outbound.allow_port", "is of every public host, as there is no allow_host"))
	}
	return notes
}
