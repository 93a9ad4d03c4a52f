package tree

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

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
	most int

	mu   sync.Mutex // guards what follows, and the arrivals of VMs
	open int
}

// Arrivals are the connections of one guest.
type arrivals struct {
	open     map[uint32]int // by port
	refusing int
}

// mostConns is how many connections guests may have, unless Config says: half
// as many as this process may have descriptors, of which Go takes as many as it
// can get when it starts.
func mostConns() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 512
	}
	return int(min(l.Cur/2, 1<<20))
}

// enter counts a connection to one of v's ports in, or says why there is no
// room for it.
func (c *crowd) enter(v *vm, port uint32) error {
	limit := maxSessions
	if port == vmm.PortProxy {
		limit = maxProxied
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &v.arrivals
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
func (c *crowd) leave(v *vm, port uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.arrivals.open[port]--
	c.open--
}

// turnAway tells a guest why there is no room for its connection, if not too
// many are being told already.
func (v *vm) turnAway(port uint32, c net.Conn, why error) {
	v.s.count.refused.Add(1)
	v.s.crowd.mu.Lock()
	a := &v.arrivals
	patient := a.refusing < maxRefusing
	if patient {
		a.refusing++
	}
	v.s.crowd.mu.Unlock()
	v.alert("port.refused", "connection refused: "+fs.Text(why))
	if !patient {
		c.Close()
	} else if !v.later(func(ctx context.Context) error {
		defer v.heard()
		return v.sayWhy(ctx, port, c, why)
	}) {
		v.heard()
		c.Close()
	}
}

// heard notes that a guest is not being told any more.
func (v *vm) heard() {
	v.s.crowd.mu.Lock()
	v.arrivals.refusing--
	v.s.crowd.mu.Unlock()
}

// sayWhy tells it in the protocol of the port.
func (v *vm) sayWhy(ctx context.Context, port uint32, c net.Conn, why error) error {
	if port == vmm.PortMCP {
		return v.mcp.Refuse(ctx, c, why)
	}
	egress.Refuse(c, why)
	return nil
}
