package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/wire"
)

const dialTime = 30 * time.Second

// dial connects to a host and port that were decided on.
func (p *policy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("no connection in %v", dialTime))
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// A name that ends in a dot is complete: the resolver does not try it with the
	// host's search domains, where it could be another host.
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ".") {
		address = net.JoinHostPort(host+".", port)
	}
	return p.guard.Dial(ctx, network, address)
}

// unreached returns the verdict on a request whose host could not be connected to.
func (p *policy) unreached(host string, err error) verdict {
	if errors.Is(err, guard.ErrRefused) {
		return deny(guard.RulePrivate, "%s leads to an address that is not public, and no private of a profile lists it", host)
	}
	var unknown *net.DNSError
	if errors.As(err, &unknown) {
		why := "the name " + host + " cannot be resolved"
		if unknown.IsNotFound {
			why = "there is no host " + host
		}
		return verdict{wire.Errored, "", why}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return verdict{wire.Errored, "", fmt.Sprintf("%s: %v", host, err)}
}

func joinPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
