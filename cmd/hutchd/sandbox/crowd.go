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

// A crowd is the connections of all guests. Each takes a descriptor of this
// process, so their number has a limit: the tree, and the VMs that come, need
// some as well. No guest can keep another from a few of its own.
type crowd struct {
	most int // connections that there may be

	mu   sync.Mutex // guards what follows, and the conns of each Sandbox
	open int        // connections of all guests
}

// guestConns counts the connections of one guest.
type guestConns struct {
	open     map[uint32]int // by port
	refusing int            // that are being told why there is no room
}

// mostConns is how many connections guests may have, unless Config says: half
// as many as this process may have descriptors.
func mostConns() int { return int(min(fs.Descriptors()/2, 1<<20)) }

// enter counts a connection to one of v's ports in, or says why there is no
// room for it.
func (c *crowd) enter(v *Sandbox, port uint32) error {
	limit := maxSessions
	if port == vmm.PortProxy {
		limit = maxProxied
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &v.conns
	own := 0
	for _, n := range a.open {
		own += n
	}
	switch {
	case a.open[port] >= limit:
		return fmt.Errorf("%w: port %d has %d connections, and no more: close some", fs.ErrAgain, port, limit)
	case c.open >= c.most && own >= ownConns:
		return fmt.Errorf("%w: hutchd has %d connections of guests, and no more: close some", fs.ErrAgain, c.open)
	}
	if a.open == nil {
		a.open = map[uint32]int{}
	}
	a.open[port]++
	c.open++
	return nil
}

// leave counts a connection out.
func (c *crowd) leave(v *Sandbox, port uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.conns.open[port]--
	c.open--
}

// turnAway tells a guest why there is no room for its connection, if not too
// many are being told already.
func (v *Sandbox) turnAway(port uint32, c net.Conn, why error) {
	v.service.count.Refused.Add(1)
	v.service.crowd.mu.Lock()
	a := &v.conns
	room := a.refusing < maxRefusing
	if room {
		a.refusing++
	}
	v.service.crowd.mu.Unlock()
	v.alert("port.refused", "connection refused: "+fs.Text(why))
	if !room {
		c.Close()
	} else if !v.later(func(ctx context.Context) error {
		defer v.doneRefusing()
		return v.sayWhy(ctx, port, c, why)
	}) {
		v.doneRefusing()
		c.Close()
	}
}

// doneRefusing notes that turnAway has told a guest.
func (v *Sandbox) doneRefusing() {
	v.service.crowd.mu.Lock()
	v.conns.refusing--
	v.service.crowd.mu.Unlock()
}

// sayWhy tells why in the protocol of the port.
func (v *Sandbox) sayWhy(ctx context.Context, port uint32, c net.Conn, why error) error {
	if port == vmm.PortMCP {
		return v.MCP.Refuse(ctx, c, why)
	}
	egress.Refuse(c, why)
	return nil
}
