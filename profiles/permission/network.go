package permission

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/guard"
)

// patterns returns the hosts that may be reached as patterns of guard, nil if
// there is no network.
//
// A name that begins with a dot means the domain and every name below it, as it
// does to Squid, which is what ToolHive has these names judged by. Ports
// alone are those of every host, there as here.
func (n *Network) patterns() ([]string, *Fault) {
	if n == nil {
		return nil, nil
	}
	out := n.Outbound
	if out == nil {
		out = new(Outbound)
	}
	if fault := out.check(); fault != nil {
		return nil, fault
	}
	switch n.Mode {
	case "", "bridge", "default":
	case "none":
		return nil, nil
	case "host":
		return nil, faultf("network.mode", "is host: no server has the host's network; remove it and list hosts in outbound.allow_host")
	default:
		return nil, faultf("network.mode", "is %.64q: there are no networks of containers; write bridge or none", n.Mode)
	}
	return out.patterns()
}

func (out *Outbound) check() *Fault {
	switch {
	case len(out.Hosts) > maxHosts:
		return faultf("network.outbound.allow_host", "has %d hosts: at most %d", len(out.Hosts), maxHosts)
	case len(out.Ports) > maxPorts:
		return faultf("network.outbound.allow_port", "has %d ports: at most %d", len(out.Ports), maxPorts)
	case len(out.Hosts)*len(out.Ports) > maxPairs:
		return faultf("network.outbound", "has %d hosts times %d ports: at most %d in all", len(out.Hosts), len(out.Ports), maxPairs)
	}
	for i, s := range out.Transports {
		if s != "tcp" && s != "udp" {
			return faultf(fmt.Sprintf("network.outbound.allow_transport[%d]", i), "%.64q is neither tcp nor udp", s)
		}
	}
	for i, port := range out.Ports {
		if port < 1 || port > 65535 {
			return faultf(fmt.Sprintf("network.outbound.allow_port[%d]", i), "is %d: ports are 1 to 65535", port)
		}
	}
	return nil
}

func (out *Outbound) patterns() ([]string, *Fault) {
	if len(out.Transports) > 0 && !slices.Contains(out.Transports, "tcp") {
		return nil, nil
	}
	var all []string
	add := func(host string) {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	if out.All {
		add("*")
	}
	if out.All || len(out.Hosts) == 0 {
		for _, port := range out.Ports {
			add("*:" + strconv.Itoa(port))
		}
	}
	for i, s := range out.Hosts {
		at := fmt.Sprintf("network.outbound.allow_host[%d]", i)
		hosts := []string{s}
		if domain, ok := strings.CutPrefix(s, "."); ok {
			hosts = []string{domain, "*." + domain}
		}
		for _, host := range hosts {
			p, err := guard.ParsePattern(host)
			if err != nil {
				return nil, faultf(at, "%v: write a host as \"api.github.com\", \".example.com\" or \"*.example.com\"", err)
			}
			if host == "*" || strings.HasPrefix(host, "*:") {
				return nil, faultf(at, "%.64q is every host: insecure_allow_all says that", s)
			}
			if len(out.Ports) == 0 || p.Port() != 0 {
				add(host)
				continue
			}
			for _, port := range out.Ports {
				add(withPort(host, port))
			}
		}
	}
	return all, nil
}

// withPort returns the pattern of one port of a host.
func withPort(host string, port int) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// checkCallers refuses a list of who may call the server, which nobody would hold to.
func (n *Network) checkCallers() *Fault {
	if n == nil || n.Inbound == nil || len(n.Inbound.Hosts) == 0 {
		return nil
	}
	return faultf("network.inbound.allow_host", "would say who may call the server, which cannot be said here: remove it")
}
