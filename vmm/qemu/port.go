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

// A port is this process' end of the machine's virtio-serial port, with the
// connections that the guest makes through it.
type port struct {
	m       *machine
	end     context.CancelFunc
	serving sync.WaitGroup
}

func openPort(m *machine) *port {
	ctx, end := context.WithCancel(context.Background())
	p := &port{m: m, end: end}
	p.serving.Go(func() { p.redial(ctx) })
	return p
}

// close ends the connections, and waits until nothing is served.
func (p *port) close() {
	p.end()
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
		switch {
		case err != nil:
			return
		case n == portFiles:
			p.serving.Go(func() { serveFiles(ctx, p.m.share, c) })
		case slices.Contains(p.m.spec.Listen(), n):
			p.m.spec.Conn(n, c)
		default:
			c.Close()
		}
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
