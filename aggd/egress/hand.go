package egress

import (
	"net"
	"syscall"

	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

// hand passes the connection's descriptor on; a connection that is no unix
// socket is copied to one that is.
func (p *Proxy) hand(c net.Conn) error {
	if u, ok := c.(*net.UnixConn); ok {
		raw, err := u.SyscallConn()
		if err != nil {
			return err
		}
		err = p.pass(raw)
		if err == nil {
			c.Close()
		}
		return err
	}
	ours, theirs, err := duplex.Pair()
	if err != nil {
		return err
	}
	raw, err := theirs.SyscallConn()
	if err == nil {
		err = p.pass(raw)
	}
	theirs.Close()
	if err != nil {
		ours.Close()
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		ours.Close()
		return errClosed
	}
	p.copies.Go(func() { duplex.Join(p.ctx, c, ours) })
	return nil
}

func (p *Proxy) pass(raw syscall.RawConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to == nil {
		return errDown
	}
	var err error
	if cerr := raw.Control(func(fd uintptr) {
		err = p.put(wire.ProxyLine{Conn: true}, int(fd))
	}); cerr != nil {
		err = cerr
	}
	return err
}
