package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"hutch/aggd/wire"
	"hutch/fs"
)

// pair returns the two ends of a connection, one of them for a child.
func pair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "proxy"), os.NewFile(uintptr(fds[1]), "proxy")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return c.(*net.UnixConn), theirs, nil
}

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
	ours, theirs, err := pair()
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
		return fmt.Errorf("%w: the proxy is closed", fs.ErrIO)
	}
	p.copies.Go(func() { join(p.ctx, c, ours) })
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
		err = p.put(wire.ProxyLine{Conn: true}, syscall.UnixRights(int(fd)))
	}); cerr != nil {
		err = cerr
	}
	return err
}

// join copies between two connections until both directions have ended, one has
// failed, or ctx ends; it closes both.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
	a.Close()
	b.Close()
}

func carry(to, from net.Conn) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if err == nil && ok && half.CloseWrite() == nil {
		return
	}
	to.Close()
	from.Close()
}
