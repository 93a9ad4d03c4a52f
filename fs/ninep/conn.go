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
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/fs/ninep/wire"
)

// A conn is a connection: what is the same before and after a Tversion.
type conn struct {
	ctx     context.Context
	srv     *Server
	rw      net.Conn
	uid     uint32 // of the client's process, or fs.NoUID
	r       *bufio.Reader
	msize   uint32   // the limit of messages that come in
	session *session // nil until a version is agreed on

	now   atomic.Pointer[session] // the same, for others than the connection's goroutine
	heard atomic.Int64            // when the last message came, since epoch
	left  atomic.Bool             // leave was called

	wmu  sync.Mutex // guards writes to rw, and the order of replies, and lost
	lost bool       // a reply could not be sent

	loadMu  sync.Mutex // guards what follows
	paid    sync.Cond  // less waits
	load    load
	stalled bool // the client was waited for
}

// firstMsize limits messages before a Tversion agreed on a limit.
const firstMsize = 8192

func newConn(ctx context.Context, s *Server, c net.Conn) *conn {
	n := &conn{ctx: ctx, srv: s, rw: c, uid: clientUID(c), r: bufio.NewReaderSize(c, 16<<10), msize: firstMsize}
	n.paid.L = &n.loadMu
	n.heard.Store(int64(time.Since(epoch)))
	return n
}

// serve serves the connection until it ends.
func (c *conn) serve() error {
	defer c.endSession()
	defer c.rw.Close() // so that no reply holds up the end of the session
	for {
		c.awaitReader()
		in, err := c.readFrame()
		if err != nil {
			return err
		}
		c.heard.Store(int64(time.Since(epoch)))
		switch {
		case in.b[4] == wire.Tversion:
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
	head, err := c.r.Peek(wire.HeadLen)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := le.Uint32(head)
	if size < wire.HeadLen || size > c.msize {
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
		c.lost = true
		c.rw.Close()
	}
}

func (c *conn) endSession() {
	if c.session != nil {
		c.session.end()
		c.session = nil
		c.now.Store(nil)
	}
}

// goodbye is how long a client that has a file open for writing may take to
// close it when the service ends: what it wrote may have ended it, and that is
// no reason for its message to fail. One that does not even read its replies by
// then is not waited for.
const goodbye = time.Second

// leave ends the connection from this side: at once, or when the client has
// closed such files.
func (c *conn) leave() {
	c.left.Store(true)
	idle := c.wmu.TryLock() // else a reply is on its way
	if idle {
		defer c.wmu.Unlock()
	}
	s := c.now.Load()
	if (!idle || s != nil && s.writing()) && c.rw.SetDeadline(time.Now().Add(goodbye)) == nil {
		return
	}
	c.rw.Close()
}

// version begins a new session, whose dialect and message size the client
// proposes. What was open in the old one is closed before the answer.
func (c *conn) version(in *buffer) error {
	cut := wire.Cutter{B: in.b[wire.HeadLen:]}
	msize, proposed := cut.U32(), cut.Str()
	if err := cut.End(); err != nil {
		return fmt.Errorf("Tversion: %w", err)
	}
	c.endSession()
	c.msize = firstMsize
	d, name := pickDialect(proposed)
	msize = min(msize, c.srv.msize())
	out := make([]byte, wire.HeadLen, 160)
	typ := uint8(wire.Rversion)
	switch {
	case msize < minMsize:
		err := fmt.Errorf("%w: message size below %d", fs.ErrInvalid, minMsize)
		typ, out = d.putError(out, err)
	default:
		out = wire.PutString(wire.Put32(out, msize), name)
		if d != 0 {
			c.msize = max(msize, firstMsize)
			c.session = newSession(c, d, msize)
			c.session.plain = name == wire.HutchVersion
			c.now.Store(c.session)
		}
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.write(wire.Seal(out, typ, le.Uint16(in.b[5:])))
	return nil
}

// pickDialect returns the dialect to speak with a client that proposes a
// version, and the version to answer; 0 and "unknown" if there is none.
func pickDialect(proposed string) (dialect, string) {
	switch {
	case proposed == wire.HutchVersion:
		return linux, proposed
	case proposed == wire.LinuxVersion || strings.HasPrefix(proposed, wire.LinuxVersion+"."):
		return linux, wire.LinuxVersion
	case strings.HasPrefix(proposed, "9P"):
		return classic, "9P2000"
	}
	return 0, "unknown"
}
