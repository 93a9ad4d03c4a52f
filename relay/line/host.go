package line

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// A Session is what the host accepts connections from, as long as it and the
// guest agree that it lasts.
type Session struct {
	l    *line
	pipe *pipe
	gate gate
	mux  *yamux.Session
	work sync.WaitGroup

	dialled chan dialled
	ctx     context.Context         // done when the session has ended
	end     context.CancelCauseFunc // ends it for a reason
}

type dialled struct {
	port uint32
	c    net.Conn
}

// Host begins a session on c, the host's end of a port, which it takes over.
// It waits for the guest, which may still be far from ready. The session ends
// with ctx, with c, and when the guest begins anew.
func Host(ctx context.Context, c io.ReadWriteCloser) (*Session, error) {
	l, id := newLine(c), binary.BigEndian.Uint64(random())
	s := &Session{l: l, pipe: newPipe(l, id), dialled: make(chan dialled)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	context.AfterFunc(s.ctx, func() {
		l.close(context.Cause(s.ctx))
		s.pipe.Close()
	})
	if err := greet(l, id); err != nil {
		s.end(err)
		l.work.Wait()
		return nil, context.Cause(s.ctx)
	}
	s.gate.to = s.pipe.feed
	config := muxConfig()
	config.StreamCloseTimeout = 0 // the gate is told of what is closed
	mux, err := yamux.Server(s.pipe, config)
	if err != nil {
		panic(err) // the configuration is bad, which it is not
	}
	s.mux = mux
	s.work.Go(s.read)
	s.work.Go(s.accept)
	return s, nil
}

func random() []byte {
	b := make([]byte, 8)
	rand.Read(b)
	return b
}

// greet says hello until the guest agrees.
func greet(l *line, id uint64) error {
	say := func() error {
		clock := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
		return l.send(frame{hello, id, clock}, false)
	}
	if err := say(); err != nil {
		return err
	}
	for {
		f, err := l.in.next()
		switch {
		case err != nil:
			return err
		case f.kind == hello && f.session == id:
			return nil
		case f.kind == call:
			if err := say(); err != nil {
				return err
			}
		}
	}
}

// read passes on what the guest sends, until the session ends.
func (s *Session) read() {
	for {
		f, err := s.l.in.next()
		switch {
		case err != nil:
			s.end(err)
			return
		case f.kind == call:
			s.end(errors.New("the guest begins anew"))
			return
		case f.kind == data && f.session == s.pipe.session:
			if err := s.gate.pass(f.data); err != nil {
				s.end(err)
				return
			}
		}
	}
}

const (
	maxConns = 1024             // open in a session
	sayLimit = 10 * time.Second // for a guest to say which port it dials
)

// accept takes up connections. Nothing that a guest does with one of them
// keeps others waiting.
func (s *Session) accept() {
	for {
		c, err := s.mux.AcceptStream()
		if err != nil {
			s.end(err)
			return
		}
		if s.mux.NumStreams() > maxConns {
			s.conn(c).Close()
			continue
		}
		s.work.Go(func() { s.admit(c) })
	}
}

func (s *Session) conn(c *yamux.Stream) conn { return conn{c, s.gate.forget} }

// admit reads which port c is for.
func (s *Session) admit(c *yamux.Stream) {
	var port [4]byte
	c.SetReadDeadline(time.Now().Add(sayLimit))
	if _, err := io.ReadFull(c, port[:]); err != nil {
		s.conn(c).Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	select {
	case s.dialled <- dialled{binary.BigEndian.Uint32(port[:]), s.conn(c)}:
	case <-s.ctx.Done():
		s.conn(c).Close()
	}
}

// Accept returns the next connection that the guest makes, and the port that
// it dials.
func (s *Session) Accept() (port uint32, c net.Conn, err error) {
	select {
	case d := <-s.dialled:
		return d.port, d.c, nil
	case <-s.ctx.Done():
		return 0, nil, fmt.Errorf("line: session ended: %w", context.Cause(s.ctx))
	}
}

// Close ends the session and all its connections, and waits for that.
func (s *Session) Close() error {
	s.end(net.ErrClosed)
	s.mux.Close()
	s.work.Wait()
	s.l.work.Wait()
	return nil
}
