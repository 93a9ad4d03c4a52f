package proxy

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/wire"
)

// Limits where the profile has none of its own.
const (
	maxBytes = 4 << 30
	timeout  = time.Hour
)

// A policy is what the guest may reach, until another one replaces it.
type policy struct {
	profile    string
	advice     string // "": to change the profile
	hosts      guard.Hosts
	guard      *guard.Guard
	transport  *http.Transport
	maxBytes   int64
	timeout    time.Duration
	decideTime time.Duration // 0: hutchd is not asked
}

func newPolicy(n wire.Network) (*policy, error) {
	p := &policy{
		profile:  n.Profile,
		advice:   n.Advice,
		maxBytes: cmp.Or(max(n.MaxBytes, 0), maxBytes),
		timeout:  cmp.Or(max(time.Duration(n.Timeout), 0), timeout),

		decideTime: max(time.Duration(n.Decide), 0),
	}
	var err error
	if p.hosts, err = guard.ParseHosts(n.Allow, n.Block); err != nil {
		return nil, err
	}
	if p.guard, err = guard.New(n.Private); err != nil {
		return nil, fmt.Errorf("private: %w", err)
	}
	p.transport = &http.Transport{
		DialContext:            p.dial, // and no Proxy: the environment has no say
		DisableCompression:     true,   // bytes pass as they are
		MaxResponseHeaderBytes: maxHead,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		ExpectContinueTimeout:  time.Second,
	}
	return p, nil
}

// A verdict is what was decided of a request, and why.
type verdict struct {
	decision     string
	rule, reason string
}

func deny(rule, format string, args ...any) verdict {
	return verdict{wire.Denied, rule, fmt.Sprintf(format, args...)}
}

// decide decides whether the guest may go to port of host, which is written as
// guard.Host writes it.
func (p *policy) decide(host string, port uint16) verdict {
	rule, pattern, allowed := p.hosts.Decide(host, port)
	switch {
	case allowed:
		return verdict{decision: wire.Allowed, rule: rule}
	case pattern != "":
		return deny(rule, "the profile %s blocks %s", p.profile, pattern)
	case rule == guard.RulePort:
		return deny(rule, "the profile %s allows %s, but not its port %d", p.profile, host, port)
	}
	return deny(rule, "the profile %s does not allow %s", p.profile, host)
}
