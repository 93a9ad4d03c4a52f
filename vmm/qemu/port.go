//go:build linux

package qemu

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/relay/line"
	relay "hutch/relay/port"
	"hutch/relay/vsock"
)

// maxShares is how many connections a guest may have to its folders; its init
// has one for each.
const maxShares = 16

// A port is this process' end of the machine's wire or, where it has none, of
// its virtio-serial port, with the connections that the guest makes through it.
type port struct {
	m       *machine
	wire    *wire
	end     context.CancelFunc
	serving sync.WaitGroup
	shares  atomic.Int32 // connections that are served folders
}

func openPort(m *machine, w *wire) *port {
	ctx, end := context.WithCancel(context.Background())
	p := &port{m: m, wire: w, end: end}
	switch {
	case w != nil:
		w.begin(func(n uint32, c net.Conn) { p.take(ctx, n, c) })
	case m.found.Shape.Ports == 0:
		p.serving.Go(func() {
			relay.Redial(ctx, p.dial, func(c net.Conn) bool { return p.session(ctx, c) })
		})
	}
	return p
}

// close ends the connections, and waits until nothing is served.
func (p *port) close() {
	p.end()
	if p.wire != nil {
		p.wire.close()
	}
	p.serving.Wait()
}

// shortest is how long a session lasts that was of use.
const shortest = 100 * time.Millisecond

// session serves one session, and says whether it was of use: it ends when the
// guest boots, and when it says what is not understood.
func (p *port) session(ctx context.Context, conn net.Conn) bool {
	defer conn.Close()
	s, err := line.Host(ctx, conn)
	if err != nil {
		return false
	}
	defer s.Close()
	for began := time.Now(); ; {
		n, c, err := s.Accept()
		if err != nil {
			return time.Since(began) > shortest
		}
		p.take(ctx, n, c)
	}
}

// take takes a connection to port n.
func (p *port) take(ctx context.Context, n uint32, c net.Conn) {
	switch {
	case p.posed(n, c):
		c.Close()
		p.serving.Go(func() { p.m.spec.Refused(n, relay.NotRoot) })
	case n == relay.Share && p.shares.Add(1) <= maxShares:
		p.serving.Go(func() {
			defer p.shares.Add(-1)
			p.m.share.Serve(ctx, c)
		})
	case n == relay.Share:
		p.shares.Add(-1)
		c.Close()
	case slices.Contains(p.m.spec.Listen(), n):
		p.m.spec.Conn(n, c)
	default:
		c.Close()
	}
}

// posed says whether c, to port n, is from a process that only says to be the
// guest's init. A serial port has sockets in the guest, which have modes.
func (p *port) posed(n uint32, c net.Conn) bool {
	if p.wire == nil || !p.m.found.Shape.Reserved || !relay.Roots(n) {
		return false
	}
	from, ok := vsock.From(c)
	return !ok || from >= vsock.FirstOpen
}

func (p *port) dial(ctx context.Context) (net.Conn, error) {
	folder, err := os.Open(p.m.spec.Dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", short(folder, "port"))
}
