package sandbox

import (
	"context"
	"fmt"
	"net"
	"sync"

	"hutch/aggd/egress"
	"hutch/fs"
	"hutch/vmm"
)

const (
	maxSessions = 256 // MCP sessions of a VM
	maxProxied  = 256 // connections of a VM that its proxy has not taken up
	ownConns    = 8   // connections that a VM may have however many there are
	maxRefusing = 16  // connections of a VM that are being told why there is no room
)

// A connLimiter limits the connections of all guests together. Each takes a
// descriptor of this process, and the tree, and the VMs that come, need some as
// well. No guest can keep another from a few of its own.
type connLimiter struct {
	most int // connections that there may be

	mu   sync.Mutex // guards what follows, and the conns of each Sandbox
	open int        // connections of all guests
}

// mostConns is how many connections guests may have, unless Config says: half
// as many as this process may have descriptors.
func mostConns() int { return int(min(fs.Descriptors()/2, 1<<20)) }

// acquire counts a connection to one of v's ports in, or says why there is no
// room for it.
func (l *connLimiter) acquire(v *Sandbox, port uint32) error {
	limit := maxSessions
	if port == vmm.PortProxy {
		limit = maxProxied
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := 0
	for _, n := range v.conns {
		own += n
	}
	switch {
	case v.conns[port] >= limit:
		return fmt.Errorf("%w: port %d has %d connections, and no more: close some", fs.ErrAgain, port, limit)
	case l.open >= l.most && own >= ownConns:
		return fmt.Errorf("%w: hutchd has %d connections of guests, and no more: close some", fs.ErrAgain, l.open)
	}
	v.conns[port]++
	l.open++
	return nil
}

// release counts a connection out.
func (l *connLimiter) release(v *Sandbox, port uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.conns[port]--
	l.open--
}

// turnAway tells a guest why there is no room for its connection, if not too
// many are being told already.
func (v *Sandbox) turnAway(port uint32, c net.Conn, why error) {
	v.service.Count.Refused.Add(1)
	v.Alert("port.refused", "", "connection refused: "+fs.Text(why))
	room := v.refusing.Add(1) <= maxRefusing
	if !room || !v.Later(func(ctx context.Context) error {
		defer v.refusing.Add(-1)
		return v.sayWhy(ctx, port, c, why)
	}) {
		v.refusing.Add(-1)
		c.Close()
	}
}

// sayWhy tells why in the protocol of the port.
func (v *Sandbox) sayWhy(ctx context.Context, port uint32, c net.Conn, why error) error {
	if port == vmm.PortMCP {
		return v.MCP.Refuse(ctx, c, why)
	}
	egress.Refuse(c, why)
	return nil
}
