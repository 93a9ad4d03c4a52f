// Package guard decides where the host may connect to for a guest: by name, with
// patterns, and by address. The connection is made from the host's place in the
// network, so every address is checked when it is dialled, after names are
// resolved: a name cannot be checked with one address and dialled with another.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// ErrRefused is returned for an address that is not on the public Internet.
var ErrRefused = errors.New("refused")

// inside are the prefixes of addresses that are not public, or that may lead to
// such addresses.
var inside = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // the host, as Azure's machines see it
	"::/96",            // unspecified, loopback, v4-compatible
	"::ffff:0:0:0/96",  // IPv4 as translators write it
	"64:ff9b:1::/48",   // NAT64 of a network's own
	"100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
	"fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// Prefixes whose addresses carry one of IPv4, and at which byte.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// A Guard decides which addresses may be dialled: public ones and those it lists.
type Guard struct {
	hosts   map[string]bool // whatever address they have
	domains []string        // .corp: and every name below corp
	nets    []netip.Prefix
}

// Public lists none: it refuses every address that is not public.
var Public = new(Guard)

// IsLocal tells whether a host is this machine, by an address or localhost.
func IsLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}

// New reads a list of hosts, addresses and CIDRs that may be reached though
// they are not public. *.corp is every name below corp.
func New(list []string) (*Guard, error) {
	g := &Guard{hosts: make(map[string]bool)}
	for _, entry := range list {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if p, err := netip.ParsePrefix(entry); err == nil {
			g.nets = append(g.nets, p.Masked())
		} else if a, err := netip.ParseAddr(entry); err == nil {
			g.nets = append(g.nets, netip.PrefixFrom(a, a.BitLen()))
		} else if strings.ContainsAny(entry, "/ :") {
			return nil, fmt.Errorf("%q is neither a host nor an address nor a CIDR", entry)
		} else if below, ok := strings.CutPrefix(entry, "*."); ok {
			g.domains = append(g.domains, "."+hostName(below))
		} else {
			g.hosts[hostName(entry)] = true
		}
	}
	return g, nil
}

func hostName(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// named says whether host may be dialled whatever address it has.
func (g *Guard) named(host string) bool {
	host = hostName(host)
	return g.hosts[host] || slices.ContainsFunc(g.domains, func(d string) bool {
		return len(host) > len(d) && strings.HasSuffix(host, d)
	})
}

// Check says why an address may not be dialled.
func (g *Guard) Check(a netip.Addr) error {
	a = a.WithZone("").Unmap()
	for _, p := range g.nets {
		if p.Contains(a) {
			return nil
		}
	}
	for _, p := range inside {
		if p.Contains(a) {
			return fmt.Errorf("%w: %s is not a public address", ErrRefused, a)
		}
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return g.Check(netip.AddrFrom4([4]byte(b[12:16])))
	case sixTo4.Contains(a):
		return g.Check(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return nil
}

// Dial dials an address after every name is resolved, if it may be.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{}
	if !g.named(host) {
		d.Control = g.control
	}
	return d.DialContext(ctx, network, address)
}

// control is called with the address that a connection is about to be made to.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s is not an address", ErrRefused, address)
	}
	return g.Check(a.Addr())
}
