package aggd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"hutch/aggd/programs"
)

// A served is the program of a server that is asked over HTTP. All connections of the
// server share it: it is started for the first and stopped after the last.
type served struct {
	from *programs.Client
	key  string
	turn chan struct{} // holds a token: whoever has it starts the program

	mu    sync.Mutex        // guards what follows
	p     *programs.Program // the last one; nil: there was none
	users int               // of p; 0: it was told to stop
}

func newServed(from *programs.Client, key string) *served {
	return &served{from: from, key: key, turn: make(chan struct{}, 1)}
}

// acquire returns the program, which the caller releases. One that has ended is
// started again.
func (s *served) acquire(ctx context.Context) (*programs.Program, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	last, live := s.join()
	if live {
		return last, nil
	}
	if last != nil { // the next one wants its port
		select {
		case <-last.Ended():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	p, err := s.from.Start(ctx, s.key)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.p, s.users = p, 1
	return p, nil
}

// join counts one more user of the program if that is live, else it returns the one
// before.
func (s *served) join() (p *programs.Program, live bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 || ended(s.p) {
		return s.p, false
	}
	s.users++
	return s.p, true
}

// release counts a user of p out.
func (s *served) release(p *programs.Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.p != p || s.users == 0 {
		return // it has ended, or is about to
	}
	if s.users--; s.users == 0 {
		p.Stop()
	}
}

// stop stops the program whoever uses it, for it does nothing any more.
func (s *served) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 {
		s.users = 0
		s.p.Stop()
	}
}

func ended(p *programs.Program) bool {
	select {
	case <-p.Ended():
		return true
	default:
		return false
	}
}

// maxServedConns is how many connections there are to a program at once, of each
// session with it: what comes then waits.
const maxServedConns = 48

// openPeer returns the peer of a connection. Where the server has a program, that runs,
// and the peer reaches it and nothing else.
func openPeer(ctx context.Context, c *conn, def definition) (*httpPeer, error) {
	p := newHTTPPeer(def, c.up.agg.maxResult)
	if def.served == nil {
		return p, nil
	}
	program, err := def.served.acquire(ctx)
	if err != nil {
		return nil, err
	}
	p.program = program
	t := p.client.Transport.(*http.Transport)
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = maxServedConns, 8
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := program.Dial(ctx)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "sandbox", Err: err}
		}
		return c, nil
	}
	return p, nil
}

// close gives the peer's connections back, and its program.
func (p *httpPeer) close() {
	p.client.CloseIdleConnections()
	if p.program != nil {
		p.def.served.release(p.program)
	}
}

// lastWord is how long a program whose connections end may take to have ended itself.
const lastWord = time.Second

// why says what made a connection to the peer fail with err: the end of its program,
// where it has one that ends.
func (p *httpPeer) why(ctx context.Context, err error) error {
	if p.program == nil || err == nil || ctx.Err() != nil || errors.Is(err, errNotSent) {
		return err
	}
	if !pause(lastWord, p.program.Ended(), ctx.Done()) && ended(p.program) {
		return died(p.program)
	}
	return err
}

// watch ends the session of c when the program has ended.
func (p *httpPeer) watch(ctx context.Context, c *conn) {
	if p.program == nil {
		return
	}
	select {
	case <-p.program.Ended():
		c.fail(died(p.program))
	case <-ctx.Done():
	}
}

func died(p *programs.Program) error { return fmt.Errorf("the server died %s", p.How()) }
