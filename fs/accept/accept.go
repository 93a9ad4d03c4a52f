// Package accept accepts connections from a listener, and goes on when the process
// is out of descriptors: a listener that gave up then would be dead for good, and
// whoever it serves with it.
package accept

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// A Listener is what connections are accepted from.
type Listener interface {
	Accept() (net.Conn, error)
	Close() error
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Serve gives take each connection that comes in, until l is closed or ctx is
// done; it closes l. While there are no descriptors or no memory for another
// connection it tries again, after a pause that grows, and trouble, which may
// be nil, is told why, once until one is taken again. The error is one after
// which l is of no use.
//
// Nothing else is accepted while take runs: if it waits, for room, so do all
// who come.
func Serve(ctx context.Context, l Listener, take func(net.Conn), trouble func(error)) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		l.Close()
	})
	defer func() {
		if !stop() { // Accept may have returned before the descriptor is closed
			<-closed
		}
	}()
	defer l.Close()
	for pause := firstPause; ; {
		c, err := l.Accept()
		switch {
		case err == nil && ctx.Err() == nil:
			take(c)
			pause = firstPause
			continue
		case err == nil:
			c.Close()
			return nil
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case !passes(err):
			return err
		}
		if pause == firstPause && trouble != nil {
			trouble(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, lastPause)
	}
}

// passes says whether an error of Accept is one of the moment: of the
// connection that was to come, or of what the system had left for it. Those
// of the listener itself are few.
func passes(err error) bool {
	var number syscall.Errno
	if errors.Is(err, io.EOF) || !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EBADF, syscall.EINVAL, syscall.ENOTSOCK, syscall.EOPNOTSUPP, syscall.EFAULT:
		return false
	}
	return true
}
