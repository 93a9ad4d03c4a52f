// Package ninep serves a fs.Node over 9P2000.L and 9P2000.
//
// Both dialects share one core: the first Tversion of a connection picks the
// dialect, and with it the messages that are understood (message.go) and the
// form of errors: 9P2000 carries their text, 9P2000.L their number.
//
// The server is our own, because github.com/hugelgupf/p9, whose client the
// hutch command uses, holds server-wide locks while a handler runs and cannot
// cancel one: a blocked read would stop every rename, and an interrupted one
// would leave its process unkillable. Here no lock is held while a node or a
// handle works, and every request has a context.
//
// # Life of a request
//
// The connection's goroutine reads a frame, takes it apart, and binds it to
// its fids, all in the order of arrival. Then the request runs in a goroutine
// of its own and answers when it is done. Reads and writes, which may block,
// need one of a fixed number of slots, and room for what they hold, and queue
// for them (bound.go); nothing else waits for a slot. Tflush cancels its
// request, Tclunk and Tremove those of the fid, a lost connection and Tversion
// all; whoever cancels answers, or closes a handle, when what was cancelled has
// ended.
//
// # Locks
//
// conn.wmu is held for the write of one reply, and session.mu for changes of
// the tables of tags and fids. They are taken in the order connTable.mu,
// conn.wmu, session.mu, conn.loadMu. None is ever held across a call of a node
// or a handle.
package ninep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/fs/accept"
)

const (
	minMsize     = 256
	defaultMsize = 256 << 10
	maxMsize     = 16 << 20
)

// A Server serves a tree. Its fields are set before it serves.
type Server struct {
	Root     fs.Node
	Log      *slog.Logger // nil: nothing is logged
	MaxMsize uint32       // largest message; 0: 256 KiB
	MaxConns int          // connections at once; others wait; 0: no limit

	silence time.Duration // of a client that makes room; 0: 10 seconds

	Allow func(net.Conn) error // decides who may connect; nil: PeerCheck

	// Settle is called before a read or write is answered, to wait for what has
	// to be so when the client knows of it; nil: there is nothing.
	Settle func()

	Each Gate // is passed by each request, until before its answer
	Open Gate // is passed by each file that is opened, until it is closed

	// Lists holds a token for each request that reads a directory, while others
	// wait; nil: none does.
	Lists chan struct{}

	Counters Counters // counted up

	owners owners
	locks  locks
	held   atomic.Int64 // bytes of the requests that have a slot
	kept   atomic.Int64 // bytes of what fids keep
	giving atomic.Bool  // memory goes back soon
	conns  connTable
}

// Counters tell what a server did so far, and does now.
type Counters struct {
	Conns    atomic.Int64 // connections there are
	Accepted atomic.Int64 // connections there were
	Fids     atomic.Int64 // fids in use
	InFlight atomic.Int64 // requests under way
	Requests atomic.Int64
	Errors   atomic.Int64 // requests answered with an error
	Read     atomic.Int64 // bytes of file data sent
	Written  atomic.Int64 // bytes of file data taken
}

// A Gate may hold up who passes it, or refuse; who has passed calls leave at the
// end. What closes a file is done also where it is refused. A nil Gate is open.
type Gate func() (leave func(), err error)

// pass passes the gate. Leave can be called after an error, too.
func (g Gate) pass() (leave func(), err error) {
	if g != nil {
		leave, err = g()
	}
	if leave == nil {
		leave = func() {}
	}
	return leave, err
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func (s *Server) msize() uint32 {
	if s.MaxMsize == 0 {
		return defaultMsize
	}
	return min(max(s.MaxMsize, minMsize), maxMsize)
}

// Serve serves the connections that come in on l until ctx is done, closes l,
// and waits for all of them to end.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns sync.WaitGroup
	room := make(chan struct{}, max(s.MaxConns, 1))
	refused, lost := s.told(slog.LevelWarn, "9P connection refused"), s.told(slog.LevelInfo, "9P connection ended")
	defer func() {
		conns.Wait()
		refused.close()
		lost.close()
	}()
	defer cancel() // before the Wait above
	err := accept.Serve(ctx, l, func(c net.Conn) {
		if s.MaxConns > 0 && !s.await(ctx, room) { // until then others wait in the listener's queue
			c.Close()
			return
		}
		conns.Go(func() {
			s.admit(ctx, c, refused, lost)
			if s.MaxConns > 0 {
				<-room
			}
		})
	}, func(err error) { s.log().Warn("9P accept", "err", err) })
	if err == nil && ctx.Err() == nil {
		err = net.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("accept 9P connections: %w", err)
	}
	return nil
}

// told has the log say what happens to connections.
func (s *Server) told(level slog.Level, text string) *told {
	return &told{say: func(err error, more int) {
		what := []any{"err", err}
		if more > 0 {
			what = append(what, "more", more)
		}
		s.log().Log(context.Background(), level, text, what...)
	}}
}

// admit serves c if its peer may connect.
func (s *Server) admit(ctx context.Context, c net.Conn, refused, lost *told) {
	allow := s.Allow
	if allow == nil {
		allow = PeerCheck
	}
	if err := allow(c); err != nil {
		refused.tell(err)
		c.Close()
		return
	}
	if err := s.ServeConn(ctx, c); err != nil {
		lost.tell(err)
	}
}

// ServeConn serves one connection, whoever the peer is, until it ends or ctx
// is done. When it returns, c and all handles opened through it are closed.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) error {
	s.Counters.Accepted.Add(1)
	s.Counters.Conns.Add(1)
	defer s.Counters.Conns.Add(-1)
	defer c.Close()
	n := newConn(ctx, s, c)
	stop := context.AfterFunc(ctx, n.leave)
	defer stop()
	s.conns.add(n)
	err := s.serveConn(n)
	if s.conns.remove(n) {
		return errGaveWay
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *Server) serveConn(c *conn) error {
	err := c.serve()
	if c.stalled && c.lost {
		s.giveBack()
	}
	return err
}
