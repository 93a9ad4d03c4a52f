package guard

import (
	"fmt"
	"slices"
)

// Hosts say which ports of which hosts may be reached.
type Hosts struct{ allow, block []Pattern }

// ParseHosts reads lists of patterns; block goes before allow.
func ParseHosts(allow, block []string) (h Hosts, err error) {
	if h.allow, err = parsePatterns(allow); err != nil {
		return Hosts{}, fmt.Errorf("allow: %w", err)
	}
	if h.block, err = parsePatterns(block); err != nil {
		return Hosts{}, fmt.Errorf("block: %w", err)
	}
	return h, nil
}

func parsePatterns(list []string) ([]Pattern, error) {
	var all []Pattern
	for _, s := range list {
		p, err := ParsePattern(s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// The rules by which a host is refused that no pattern blocks.
const (
	RulePort    = "port"    // others of its ports may be reached
	RuleDefault = "default" // no pattern allows it
	RulePrivate = "private" // its address is not public
)

// Decide tells whether port of host, which is written as Host writes it, may be
// reached, and by which rule. Pattern is the one that the rule names, if it does.
func (h Hosts) Decide(host string, port uint16) (rule, pattern string, allowed bool) {
	at := slices.IndexFunc(h.block, func(b Pattern) bool {
		return b.Match(host) && (b.Port() == 0 || b.Port() == port)
	})
	if at >= 0 {
		pattern = h.block[at].String()
		return "block " + pattern, pattern, false
	}
	rule = RuleDefault
	for _, a := range h.allow {
		if !a.Match(host) {
			continue
		}
		if a.Port() == port || a.Port() == 0 && (port == 80 || port == 443) {
			return "allow " + a.String(), a.String(), true
		}
		rule = RulePort
	}
	return rule, "", false
}
