package guard

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Host returns the canonical form of a host that a guest names: lower case,
// without a dot at the end, other alphabets in their ASCII form, and an address
// as netip has it, without brackets. What other programs might read as something else
// is an error: an address in hex or with parts left out, a zone, a blank.
func Host(s string) (string, error) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		if a.Zone() != "" || strings.HasPrefix(s, "[") != strings.HasSuffix(s, "]") {
			return "", notHost(s)
		}
		return a.Unmap().String(), nil
	}
	name := strings.TrimSuffix(s, ".")
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", notHost(s)
		}
		name = ascii
	}
	name = strings.ToLower(name)
	if !isName(name) {
		return "", notHost(s)
	}
	return name, nil
}

func notHost(s string) error {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return fmt.Errorf("%q is no name of a host", s)
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c >= 0x80 }) < 0
}

// isName tells whether s is made of labels, the last of which is no number:
// that would be an address to some.
func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	last := ""
	for last = range strings.SplitSeq(s, ".") {
		if last == "" || len(last) > 63 || last[0] == '-' || last[len(last)-1] == '-' || strings.Trim(last, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	if strings.Trim(last, "0123456789") == "" {
		return false
	}
	hex, ok := strings.CutPrefix(last, "0x")
	return !ok || strings.Trim(hex, "0123456789abcdef") != ""
}

// A Pattern says which hosts a rule is about.
type Pattern struct {
	text  string
	host  string // exact; "" where below or all says it
	below string // .debian.org: every name below debian.org
	port  uint16 // 0: any that the rule's reader takes
}

// ParsePattern reads HOST, *.DOMAIN or *, each with :PORT or without. *.DOMAIN is
// every name below the domain, not the domain itself; * is every host.
func ParsePattern(s string) (Pattern, error) {
	p := Pattern{text: s}
	if strings.Contains(s, "/") { // a URL, whose colon is before no port
		return Pattern{}, notHost(s)
	}
	host := s
	if at := strings.LastIndexByte(s, ':'); at >= 0 && (strings.Count(s, ":") == 1 || strings.HasSuffix(s[:at], "]")) {
		n, err := strconv.ParseUint(s[at+1:], 10, 16)
		if err != nil || n == 0 {
			return Pattern{}, fmt.Errorf("%q has no port from 1 to 65535 after the colon", s)
		}
		host, p.port = s[:at], uint16(n)
	}
	if host == "*" {
		return p, nil
	}
	domain, below := strings.CutPrefix(host, "*.")
	name, err := Host(domain)
	if err == nil && below {
		if _, isAddr := netip.ParseAddr(name); isAddr == nil {
			err = notHost(s)
		}
	}
	if err != nil {
		return Pattern{}, err
	}
	if below {
		p.below = "." + name
	} else {
		p.host = name
	}
	return p, nil
}

// Match tells whether p is about host, as Host writes it. It does not look at the port.
func (p Pattern) Match(host string) bool {
	switch {
	case p.below != "":
		return len(host) > len(p.below) && strings.HasSuffix(host, p.below)
	case p.host != "":
		return host == p.host
	}
	return p.text != ""
}

// Port returns the port that p names, 0 if it names none.
func (p Pattern) Port() uint16 { return p.port }

// String returns p as it was written.
func (p Pattern) String() string { return p.text }
