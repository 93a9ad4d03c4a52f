package line

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// A Guest is the guest's end of a port, over all its sessions.
type Guest struct {
	l     *line
	clock func(time.Time)

	mu   sync.Mutex // guards what follows
	pipe *pipe
	mux  *yamux.Session // nil without a session
	last uint64         // the number of the last session
	came chan struct{}  // closed when there is one
}

// NewGuest returns the guest's end of rw, which it takes over. At the
// beginning of each session clock, if it is not nil, is told the host's time.
func NewGuest(rw io.ReadWriteCloser, clock func(time.Time)) *Guest {
	if clock == nil {
		clock = func(time.Time) {}
	}
	return &Guest{l: newLine(rw), clock: clock, came: make(chan struct{})}
}

// away is how long a guest waits before it looks again for a host that has
// hung up: reads of the port do not wait for that.
const away = 20 * time.Millisecond

// Run speaks with the host until ctx is done, or the port fails.
func (g *Guest) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { g.l.close(context.Cause(ctx)) })
	defer stop()
	defer g.l.work.Wait()
	defer g.hangUp()
	g.l.send(frame{kind: call}, false)
	for {
		f, err := g.l.in.next()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			// That hosts go and come Linux hears in a thread of its own, maybe
			// after the hello of the last: this may be a session that it is in.
			if g.hangUp() {
				g.l.send(frame{kind: call}, false)
			}
			select {
			case <-time.After(away):
			case <-ctx.Done():
			}
		case err != nil:
			g.l.close(err)
			return err
		default:
			g.take(f)
		}
	}
}

// take does what a frame says.
func (g *Guest) take(f frame) {
	g.mu.Lock()
	p, last := g.pipe, g.last
	g.mu.Unlock()
	switch {
	case f.kind == hello && len(f.data) == 8 && f.session != last: // it may come twice
		g.hangUp()
		g.clock(time.Unix(0, int64(binary.BigEndian.Uint64(f.data))))
		g.begin(f.session)
	case f.kind == data && p != nil && f.session == p.session:
		p.feed.Write(f.data) // it fails when the session has ended
	}
}

// begin begins the session that the host wants.
func (g *Guest) begin(id uint64) {
	if g.l.send(frame{kind: hello, session: id}, false) != nil {
		return
	}
	p := newPipe(g.l, id)
	mux, err := yamux.Client(p, muxConfig())
	if err != nil {
		panic(err) // the configuration is bad, which it is not
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe, g.mux, g.last = p, mux, id
	close(g.came)
}

// hangUp ends the session, and says whether there was one.
func (g *Guest) hangUp() bool {
	g.mu.Lock()
	mux := g.mux
	g.mu.Unlock()
	return mux != nil && g.drop(mux)
}

// drop ends the session of mux, unless that has been done.
func (g *Guest) drop(mux *yamux.Session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mux != mux {
		return false
	}
	g.pipe.Close()
	g.l.work.Go(func() { mux.Close() }) // which waits for what uses the pipe
	g.pipe, g.mux, g.came = nil, nil, make(chan struct{})
	return true
}

// Dial connects to a port of the host. It waits for a session.
func (g *Guest) Dial(ctx context.Context, port uint32) (net.Conn, error) {
	for {
		g.mu.Lock()
		mux, came := g.mux, g.came
		g.mu.Unlock()
		if mux != nil {
			c, err := open(mux, port)
			if err == nil {
				return c, nil
			}
			if g.drop(mux) {
				g.l.send(frame{kind: call}, false)
			}
			continue
		}
		select {
		case <-came:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func open(mux *yamux.Session, port uint32) (net.Conn, error) {
	s, err := mux.OpenStream()
	if err != nil {
		return nil, err
	}
	if _, err := s.Write(binary.BigEndian.AppendUint32(nil, port)); err != nil {
		s.Close()
		return nil, err
	}
	return conn{s, func(uint32) {}}, nil
}
