package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"hutch/fs"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// Allow has the server reach hosts besides those that it may reach: a name or an
// address, with a port or not, as a permission profile has them. One that runs is
// stopped, and started again.
func (s *Server) Allow(ctx context.Context, hosts []string) error {
	more := func(c *runconfig.Config) (*runconfig.Config, error) { return allow(c, hosts) }
	runs := s.wanted()
	if runs {
		if _, err := s.next(more); err != nil { // and it runs on
			return err
		}
		if err := s.Stop(ctx); err != nil {
			return err
		}
	}
	if err := s.change(ctx, more); err != nil || !runs {
		return err
	}
	return s.Start(ctx)
}

// allow returns a config that allows hosts, too.
func allow(c *runconfig.Config, hosts []string) (*runconfig.Config, error) {
	if c.Server().IsRemote() {
		return nil, fmt.Errorf("%w: the server runs elsewhere: what it reaches is not hutch's to allow", fs.ErrInvalid)
	}
	p, err := c.Server().Permissions()
	if err != nil {
		return nil, err
	}
	more, err := reaching(*p, hosts)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return c.Set("permission_profile", string(text))
}

// reaching returns a permission profile that allows hosts, too. One that allows ports of
// every host has no list of hosts, and would allow less with one.
func reaching(p permission.Profile, hosts []string) (permission.Profile, error) {
	var n permission.Network
	var out permission.Outbound
	if p.Network != nil {
		if p.Network.Outbound != nil && p.Network.Mode != "none" {
			out = *p.Network.Outbound
		}
	}
	if len(out.Ports) > 0 && len(out.Hosts) == 0 && !out.All {
		return p, fmt.Errorf("%w: the permission profile allows ports of every host: add a port to its network.outbound.allow_port, or list all hosts in allow_host", fs.ErrInvalid)
	}
	out.Hosts = slices.Clone(out.Hosts)
	for _, host := range hosts {
		if !slices.Contains(out.Hosts, host) {
			out.Hosts = append(out.Hosts, host)
		}
	}
	n.Outbound = &out
	p.Network = &n
	return p, nil
}
