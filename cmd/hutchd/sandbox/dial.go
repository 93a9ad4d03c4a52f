package sandbox

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
)

const (
	// listenTime is how long a program may take to listen.
	listenTime = 2 * time.Minute
	// leaveTime is how long one that ended may take to be off its port.
	leaveTime = 15 * time.Second
	// firstKnock goes between the first two tries to connect, lastKnock between the last.
	firstKnock = 10 * time.Millisecond
	lastKnock  = 200 * time.Millisecond
)

// A dialed is a connection to the port of a program.
type dialed struct {
	t      *guest.TCP
	ctx    context.Context
	cancel context.CancelFunc
}

// Dial connects to the port of the program. The connection ends with that.
func (p *Program) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	t, err := p.knock(ctx)
	if err != nil {
		return nil, p.v.WhyGone(err)
	}
	d := &dialed{t: t}
	d.ctx, d.cancel = context.WithCancel(p.ctx)
	return d, nil
}

// knock makes a connection to the program's port.
func (p *Program) knock(ctx context.Context) (*guest.TCP, error) {
	g, err := p.v.Guest()
	if err != nil {
		return nil, err
	}
	t, err := g.MakeTCP(ctx, strconv.FormatUint(p.v.service.NextID(), 10))
	if err != nil {
		return nil, err
	}
	if err := t.Ctl(ctx, "connect "+strconv.Itoa(p.start.Port)); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// heard says whether somebody listens at the program's port.
func (p *Program) heard(ctx context.Context) (bool, error) {
	t, err := p.knock(ctx)
	switch {
	case err == nil:
		t.Close()
		return true, nil
	case fs.Is(err, fs.ErrRefused):
		return false, nil
	}
	return false, err
}

// unheard waits until nobody listens at the port that the program is to have.
func (p *Program) unheard(ctx context.Context) error {
	return p.awaitPort(ctx, leaveTime, false, "another program of its sandbox listens at port %d")
}

// listening waits until the program listens at its port, and fails when it ends
// before that.
func (p *Program) listening(ctx context.Context) error {
	return p.awaitPort(ctx, listenTime, true, "it does not listen at port %d: target_port has to be the port that it listens at")
}

// awaitPort waits until it is so that somebody listens at the port, or not. Late is what is said
// when that takes too long.
func (p *Program) awaitPort(ctx context.Context, limit time.Duration, want bool, late string) error {
	if p.start.Port == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: "+late, fs.ErrTimedOut, p.start.Port))
	defer cancel()
	for pause := firstKnock; ; pause = min(2*pause, lastKnock) {
		is, err := p.heard(ctx)
		if is == want && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil && p.ctx.Err() == nil {
			return err
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: it ended before it listened at port %d (%s)", fs.ErrIO, p.start.Port, p.how)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (d *dialed) Read(p []byte) (int, error) {
	n, err := d.t.Read(d.ctx, p, false)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

func (d *dialed) Write(p []byte) (done int, err error) {
	for done < len(p) {
		n, err := d.t.Write(d.ctx, p[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// CloseWrite ends what is sent.
func (d *dialed) CloseWrite() error { return d.t.Ctl(d.ctx, "eof") }

// Close ends the connection.
func (d *dialed) Close() error {
	d.cancel()
	d.t.Close()
	return nil
}
