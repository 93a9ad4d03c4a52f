// Package vsock carries the connections of virtual machines on AF_VSOCK. It is
// used at both ends: a guest dials its host, and a host has one listener for each
// port, for all of its guests. A guest is known by its context id (CID), which
// the kernel puts on every connection, and never by what it says.
package vsock

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/mdlayher/vsock"

	"hutch/fs"
	"hutch/fs/accept"
)

// Context ids that are the same everywhere.
const (
	Local = vsock.Local // this machine, by the kernel's loopback transport
	Host  = vsock.Host  // the host, to a guest
)

// Dial connects to a port of the machine that has the context id cid.
func Dial(ctx context.Context, cid, port uint32) (net.Conn, error) {
	return vsock.DialContext(ctx, cid, port, nil)
}

// FirstOpen is the first port that every process may bind: those below are
// reserved, and a connection from one is from a process that Linux trusts.
const FirstOpen = 1024

// From returns the port that the guest's end of c has.
func From(c net.Conn) (port uint32, ok bool) {
	a, ok := c.RemoteAddr().(*vsock.Addr)
	if !ok {
		return 0, false
	}
	return a.Port, true
}

// A Switch takes the connections of guests and knows them apart.
type Switch struct {
	end       context.CancelFunc // of listening
	accepting sync.WaitGroup

	guestsMu sync.Mutex // guards guests
	guests   map[uint32]func(port uint32, c net.Conn)
}

// Listen listens on ports of this machine, which guests know as cid, for guests that are
// added later. No other process of this machine can listen on them then.
func Listen(cid uint32, ports ...uint32) (*Switch, error) {
	ctx, end := context.WithCancel(context.Background())
	s := &Switch{end: end, guests: make(map[uint32]func(uint32, net.Conn))}
	for _, port := range ports {
		l, err := vsock.ListenContextID(cid, port, nil)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("vsock port %d: %w", port, err)
		}
		s.serve(ctx, l, port)
	}
	return s, nil
}

func (s *Switch) serve(ctx context.Context, l net.Listener, port uint32) {
	s.accepting.Go(func() { accept.Serve(ctx, l, func(c net.Conn) { s.take(port, c) }, nil) })
}

// take gives a connection to the guest that it is from. Of nobody it knows it takes none.
func (s *Switch) take(port uint32, c net.Conn) {
	a, ok := c.RemoteAddr().(*vsock.Addr)
	if ok {
		s.guestsMu.Lock()
		conn := s.guests[a.ContextID]
		s.guestsMu.Unlock()
		if conn != nil {
			conn(port, c)
			return
		}
	}
	c.Close()
}

// Add gives conn, from now on, the connections of the guest that has the context
// id cid, each with the port it dialled. Conn must not wait.
func (s *Switch) Add(cid uint32, conn func(port uint32, c net.Conn)) error {
	s.guestsMu.Lock()
	defer s.guestsMu.Unlock()
	if s.guests[cid] != nil {
		return fmt.Errorf("%w: vsock context id %d", fs.ErrExist, cid)
	}
	s.guests[cid] = conn
	return nil
}

// Remove takes no more connections of the guest.
func (s *Switch) Remove(cid uint32) {
	s.guestsMu.Lock()
	defer s.guestsMu.Unlock()
	delete(s.guests, cid)
}

// Close ends listening. Connections that were given away stay.
func (s *Switch) Close() error {
	s.end()
	s.accepting.Wait()
	return nil
}
