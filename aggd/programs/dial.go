package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

// A Dialer is a Task of a program that listens on its Port.
type Dialer interface {
	Task
	// Dial connects to the port. The connection ends when the program has.
	Dial(context.Context) (io.ReadWriteCloser, error)
}

// maxConns is how many connections to one program there may be.
const maxConns = 128

// dial has a connection be made to a program, and carried, on a goroutine of its own.
func (h *Host) dial(o order, to *wire.Socket) error {
	r, d, err := h.dialer(o.Dial)
	if err != nil {
		return err
	}
	if r.conns.Add(1) > maxConns {
		r.conns.Add(-1)
		return fmt.Errorf("the program has %d connections, and cannot have more", maxConns)
	}
	h.tasks.Go(func() {
		defer r.conns.Add(-1)
		if err := r.carry(d, o.ID, to); err != nil {
			to.Send(notice{ID: o.ID, Refused: err.Error()})
		}
	})
	return nil
}

// dialer returns the program of an id, if that listens.
func (h *Host) dialer(id uint64) (*running, Dialer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.running[id]
	if r == nil || r.task == nil {
		return nil, nil, errors.New("the program does not run")
	}
	d, ok := r.task.(Dialer)
	if !ok || r.Port == 0 {
		return nil, nil, errors.New("the program does not listen")
	}
	return r, d, nil
}

// carry connects to the program, hands an end of that over, and passes on what comes
// from both sides until they have ended.
func (r *running) carry(d Dialer, id uint64, to *wire.Socket) error {
	guest, err := d.Dial(r.ctx)
	if err != nil {
		return err
	}
	ours, theirs, err := duplex.Pair()
	if err != nil {
		guest.Close()
		return err
	}
	err = to.Send(notice{ID: id, Dialed: true}, int(theirs.Fd()))
	theirs.Close()
	if err != nil {
		guest.Close()
		ours.Close()
		return nil // there is nobody to be told
	}
	duplex.Join(r.ctx, ours, guest)
	return nil
}

// A dialed is what came of a connection that was asked for.
type dialed struct {
	conn net.Conn
	err  error
}

// Dial connects to a program that listens. The connection ends when the program has.
func (p *Program) Dial(ctx context.Context) (net.Conn, error) {
	c := p.client
	id, got, err := c.expect()
	if err != nil {
		return nil, err
	}
	if c.to.Send(order{Dial: p.id, ID: id}) != nil {
		err = errGone
	} else {
		select {
		case d := <-got:
			return d.conn, d.err
		case <-p.ended:
			err = errors.New("the program has ended")
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if c.answered(id) == nil { // it is just coming
		if d := <-got; d.conn != nil {
			d.conn.Close()
		}
	}
	return nil, err
}

// expect returns the id of a connection to come, and where it will.
func (c *Client) expect() (uint64, <-chan dialed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return 0, nil, c.gone
	}
	c.last++
	got := make(chan dialed, 1)
	c.dials[c.last] = got
	return c.last, got, nil
}

// answered returns where a connection of an id is waited for, and has it not be any
// more; nil if it is not.
func (c *Client) answered(id uint64) chan<- dialed {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.dials[id]
	delete(c.dials, id)
	return got
}

// takeConn takes the connection that came with a line.
func (c *Client) takeConn(id uint64) {
	f, err := c.to.Take()
	var d dialed
	if err == nil {
		d.conn, err = net.FileConn(f)
		f.Close()
	}
	if err != nil {
		d.err = fmt.Errorf("no descriptor was left for the connection: %w", err)
	}
	switch got := c.answered(id); {
	case got != nil:
		got <- d
	case d.conn != nil:
		d.conn.Close()
	}
}
