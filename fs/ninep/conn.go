package ninep

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"hutch/fs/node"
)

// A conn is a connection: what is the same before and after a Tversion.
type conn struct {
	ctx     context.Context
	srv     *Server
	rw      net.Conn
	r       *bufio.Reader
	msize   uint32   // the limit of messages that come in
	session *session // nil until a version is agreed on

	wmu sync.Mutex // guards writes to rw, and the order of replies
}

// firstMsize limits messages before a Tversion agreed on a limit.
const firstMsize = 8192

func newConn(ctx context.Context, s *Server, c net.Conn) *conn {
	return &conn{ctx: ctx, srv: s, rw: c, r: bufio.NewReaderSize(c, 16<<10), msize: firstMsize}
}

// serve serves the connection until it ends.
func (c *conn) serve() error {
	defer c.endSession()
	defer c.rw.Close() // so that no reply holds up the end of the session
	for {
		in, err := c.readFrame()
		if err != nil {
			return err
		}
		switch {
		case in.b[4] == Tversion:
			err = c.version(in)
			in.free()
		case c.session == nil:
			err = fmt.Errorf("message of type %d before a version", in.b[4])
			in.free()
		default:
			c.session.accept(in)
		}
		if err != nil {
			return err
		}
	}
}

// readFrame reads one message.
func (c *conn) readFrame() (*buffer, error) {
	head, err := c.r.Peek(frameHead)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := le.Uint32(head)
	if size < frameHead || size > c.msize {
		return nil, fmt.Errorf("message of %d bytes: limit is %d", size, c.msize)
	}
	in := newBuffer(int(size))
	if _, err := io.ReadFull(c.r, in.b); err != nil {
		in.free()
		return nil, err
	}
	return in, nil
}

// write sends a message; wmu is held. When that fails the connection is
// lost: it is closed, which ends serve.
func (c *conn) write(b []byte) {
	if _, err := c.rw.Write(b); err != nil {
		c.rw.Close()
	}
}

func (c *conn) endSession() {
	if c.session != nil {
		c.session.end()
		c.session = nil
	}
}

// version begins a new session, whose dialect and message size the client
// proposes. What was open in the old one is closed before the answer.
func (c *conn) version(in *buffer) error {
	cut := cutter{b: in.b[frameHead:]}
	msize, proposed := cut.u32(), cut.str()
	if err := cut.end(); err != nil {
		return fmt.Errorf("Tversion: %w", err)
	}
	c.endSession()
	c.msize = firstMsize
	d, name := pickDialect(proposed)
	msize = min(msize, c.srv.msize())
	out := make([]byte, frameHead, 160)
	typ := uint8(Rversion)
	switch {
	case msize < minMsize:
		err := fmt.Errorf("%w: message size below %d", node.ErrInvalid, minMsize)
		typ, out = d.putError(out, err)
	default:
		out = putString(put32(out, msize), name)
		if d != 0 {
			c.msize = max(msize, firstMsize)
			c.session = newSession(c, d, msize)
		}
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.write(seal(out, typ, le.Uint16(in.b[5:])))
	return nil
}

// pickDialect returns the dialect to speak with a client that proposes a
// version, and the version to answer; 0 and "unknown" if there is none.
func pickDialect(proposed string) (dialect, string) {
	switch {
	case proposed == "9P2000.L" || strings.HasPrefix(proposed, "9P2000.L."):
		return linux, "9P2000.L"
	case strings.HasPrefix(proposed, "9P"):
		return classic, "9P2000"
	}
	return 0, "unknown"
}
