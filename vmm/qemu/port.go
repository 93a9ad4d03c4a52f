//go:build linux

package qemu

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"hutch/relay/line"
	"hutch/vmm/qemu/share"
)

// portFiles is the port on which a guest is served its shared folders.
const portFiles = 5001

// A port is this process' end of the machine's wire or, where it has none, of
// its virtio-serial port, with the connections that the guest makes through it.
type port struct {
	m       *machine
	wire    *wire
	end     context.CancelFunc
	serving sync.WaitGroup
}

func openPort(m *machine, w *wire) *port {
	ctx, end := context.WithCancel(context.Background())
	p := &port{m: m, wire: w, end: end}
	switch {
	case w != nil:
		w.begin(func(n uint32, c net.Conn) { p.take(ctx, n, c) })
	case m.found.Shape.Ports == 0:
		p.serving.Go(func() { p.redial(ctx) })
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

const redialPause = 100 * time.Millisecond

// redial serves session after session: one ends when the guest boots, and
// when it says what is not understood.
func (p *port) redial(ctx context.Context) {
	for {
		p.session(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.m.p.Gone():
			return
		case <-time.After(redialPause):
		}
	}
}

func (p *port) session(ctx context.Context) {
	conn, err := p.dial(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	s, err := line.Host(ctx, conn)
	if err != nil {
		return
	}
	defer s.Close()
	for {
		n, c, err := s.Accept()
		if err != nil {
			return
		}
		p.take(ctx, n, c)
	}
}

// take takes a connection to port n.
func (p *port) take(ctx context.Context, n uint32, c net.Conn) {
	switch {
	case n == portFiles:
		p.serving.Go(func() { serveFiles(ctx, p.m.share, c) })
	case slices.Contains(p.m.spec.Listen(), n):
		p.m.spec.Conn(n, c)
	default:
		c.Close()
	}
}

func serveFiles(ctx context.Context, s *share.Share, c net.Conn) {
	defer c.Close()
	s.Serve(ctx, c)
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
