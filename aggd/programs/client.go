package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"hutch/aggd/wire"
)

// A Client asks a Host for programs.
type Client struct {
	to   *wire.Socket
	done chan struct{} // closed when the Host says no more

	mu    sync.Mutex // guards what follows
	last  uint64
	live  map[uint64]*Program
	dials map[uint64]chan<- dialed // connections that are waited for
	gone  error                    // why there are no more programs
}

// A Program is one that runs for this process. Whoever started it closes In and
// Out.
type Program struct {
	In, Out *os.File // its standard input and output; nil of one that listens

	client  *Client
	id      uint64
	begun   bool          // it runs, or did; guarded by the Client's mu
	started chan error    // one, when it runs or why it does not
	ended   chan struct{} // closed when it has ended
	how     string
	words   string
}

var errGone = errors.New("hutchd is gone")

// NewClient returns the Client of a process that its parent gave the socket fd.
func NewClient(fd uintptr) (*Client, error) {
	to, err := wire.InheritSocket(fd, maxNotice)
	if err != nil {
		return nil, err
	}
	c := &Client{to: to, done: make(chan struct{}), live: make(map[uint64]*Program), dials: make(map[uint64]chan<- dialed)}
	go c.read()
	return c, nil
}

// Close ends the connection and with it, at the Host, all programs. It waits
// until no more is read.
func (c *Client) Close() error {
	err := c.to.Close()
	<-c.done
	return err
}

// Start has the program of a key started. It returns when it runs.
func (c *Client) Start(ctx context.Context, key string) (*Program, error) {
	p := &Program{client: c, started: make(chan error, 1), ended: make(chan struct{})}
	if err := c.enter(p); err != nil {
		return nil, err
	}
	if err := c.to.Send(order{Start: key, ID: p.id}); err != nil {
		c.leave(p.id)
		return nil, errGone
	}
	select {
	case err := <-p.started:
		if err != nil {
			return nil, err
		}
		return p, nil
	case <-ctx.Done():
		p.Stop()
		go func() { // it may be on its way
			if <-p.started == nil {
				p.In.Close()
				p.Out.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (c *Client) enter(p *Program) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return c.gone
	}
	c.last++
	p.id = c.last
	c.live[p.id] = p
	return nil
}

// leave returns the program that had an id, nil if there is none.
func (c *Client) leave(id uint64) *Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.live[id]
	delete(c.live, id)
	return p
}

// Stop has the Host end the program: whose input has ended, by SIGTERM, then by
// force. It waits for nothing.
func (p *Program) Stop() { p.client.to.Send(order{Stop: true, ID: p.id}) }

// Ended is closed when the program has ended, with all of its group.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// How says how a program that has ended did, in its own last words where it had any.
func (p *Program) How() string {
	if p.words == "" {
		return fmt.Sprintf("(%s)", p.how)
	}
	return fmt.Sprintf("(%s): %s", p.how, p.words)
}

// read takes what the Host says.
func (c *Client) read() {
	defer close(c.done)
	defer c.to.Drop()
	for {
		var n notice
		if err := c.to.Read(&n); err != nil {
			c.fail(err)
			return
		}
		c.take(n)
	}
}

// take does what a notice says.
func (c *Client) take(n notice) {
	switch {
	case n.Started:
		in, err1 := c.to.Take()
		out, err2 := c.to.Take()
		c.begin(n.ID, in, out, errors.Join(err1, err2))
		return
	case n.Listens:
		c.begin(n.ID, nil, nil, nil)
		return
	case n.Dialed:
		c.takeConn(n.ID)
		return
	}
	if got := c.answered(n.ID); got != nil {
		got <- dialed{err: errors.New(n.Refused)}
		return
	}
	p := c.leave(n.ID)
	switch {
	case p == nil:
	case n.Refused != "":
		p.started <- errors.New(n.Refused)
	default:
		p.end(n.Ended, n.Words)
	}
}

// begin has a program run whose pipes came, unless err says that they did not.
func (c *Client) begin(id uint64, in, out *os.File, err error) {
	c.mu.Lock()
	p := c.live[id]
	if p != nil && err == nil {
		p.begun = true
	}
	c.mu.Unlock()
	if err != nil || p == nil {
		in.Close() // which a nil file refuses
		out.Close()
		c.to.Send(order{Stop: true, ID: id})
		if p = c.leave(id); p != nil {
			p.started <- fmt.Errorf("start: no descriptor was left for it: %w", err)
		}
		return
	}
	p.In, p.Out = in, out
	p.started <- nil
}

func (p *Program) end(how, words string) {
	p.how, p.words = how, words
	close(p.ended)
}

// fail ends all programs: the Host is gone, and ends them.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = errGone
	if !errors.Is(err, io.EOF) {
		c.gone = fmt.Errorf("%w: %w", errGone, err)
	}
	for _, p := range c.live {
		if !p.begun {
			p.started <- c.gone
		}
		p.end(c.gone.Error(), "")
	}
	clear(c.live)
	for _, got := range c.dials {
		got <- dialed{err: c.gone}
	}
	clear(c.dials)
}
