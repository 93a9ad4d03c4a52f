package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// A conns is the set of the guest's connections, and the listener that accepts them.
type conns struct {
	queue chan net.Conn
	over  chan struct{}

	mu     sync.Mutex // guards what follows
	open   map[*conn]struct{}
	closed bool
}

func newConns() *conns {
	return &conns{queue: make(chan net.Conn, maxConns), over: make(chan struct{}), open: make(map[*conn]struct{})}
}

// take adds a connection. One too many is told so and closed.
func (s *conns) take(raw net.Conn) {
	c := &conn{Conn: raw, all: s}
	s.mu.Lock()
	full := s.closed || len(s.open) >= maxConns
	if !full {
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		io.WriteString(raw, raw503(fmt.Sprintf("more than %d connections at once", maxConns)))
		raw.Close()
		return
	}
	s.queue <- c // there is room for all that are open
}

// again queues a connection once more, for the requests that come in its tunnel. ahead is
// what was read of them already.
func (s *conns) again(c *conn, in tunnelled, ahead []byte) {
	c.in, c.ahead = &in, ahead
	c.SetDeadline(time.Time{})
	s.queue <- c // there is room for all that are open
}

// Accept returns the next connection.
func (s *conns) Accept() (net.Conn, error) {
	select {
	case c := <-s.queue:
		return c, nil
	case <-s.over:
		return nil, http.ErrServerClosed
	}
}

// Close closes every connection.
func (s *conns) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.over)
	for c := range s.open {
		c.Conn.Close()
	}
	return nil
}

// Addr is a name only.
func (s *conns) Addr() net.Addr { return &net.UnixAddr{Name: "guest", Net: "unix"} }

// A conn is a connection of the guest. It may begin with a NUL and a line that
// names the program that made it, which is no part of what is read.
type conn struct {
	net.Conn
	all     *conns
	begun   bool
	program string

	in    *tunnelled // the tunnel that the requests come in; nil: there is none
	ahead []byte     // what was read already and is still to be
}

// preamble is what a line begins with that names a program.
const preamble = "\x00CAPSEM_META:"

const maxPreamble = 512

func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	if c.begun || len(p) == 0 {
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p[:1])
	if n == 0 {
		return 0, err
	}
	c.begun = true
	if p[0] != 0 {
		return 1, nil
	}
	line := []byte{0}
	for one := make([]byte, 1); len(line) < maxPreamble; line = append(line, one[0]) {
		if _, err := io.ReadFull(c.Conn, one); err != nil {
			return 0, err
		}
		if one[0] == '\n' {
			if name, ok := bytes.CutPrefix(line, []byte(preamble)); ok {
				c.program = printable(string(name))
				return c.Conn.Read(p)
			}
			break
		}
	}
	return 0, errors.New("a connection that begins with NUL and names no program")
}

// watch calls gone if the guest closes c before stop is called. It is for the
// time in which nobody reads from c, and sees nothing behind what the guest has
// sent and nobody has read.
func (c *conn) watch(gone func()) (stop func()) {
	sys, ok := c.Conn.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := sys.SyscallConn()
	if err != nil { // it is closed
		gone()
		return func() {}
	}
	var work sync.WaitGroup
	work.Go(func() {
		raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			if err == syscall.EAGAIN || err == syscall.EINTR {
				return false // and wait
			}
			if n <= 0 {
				gone()
			}
			return true
		})
	})
	return func() {
		c.SetReadDeadline(time.Unix(1, 0))
		work.Wait()
		c.SetReadDeadline(time.Time{})
	}
}

// CloseWrite tells the guest that no more comes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}
