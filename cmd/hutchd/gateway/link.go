package gateway

import (
	"context"
	"net"
	"sync"
	"time"

	"hutch/aggd/programs"
	"hutch/fs"
	"hutch/relay"
)

// A Link is a session of a gateway that stands where another gateway's program
// would: what that is sent, the session is sent. It is a programs.Task.
type Link struct {
	g      *Gateway
	start  programs.Start
	who    string // as the ledger has it
	ctx    context.Context
	cancel context.CancelFunc
	served sync.WaitGroup
	exited chan struct{}
}

// Link makes a session of the gateway in which who asks, over the pipes of a start.
// It fails, and leaves the pipes as they are, if the gateway is closed.
func (g *Gateway) Link(s programs.Start, who string) (*Link, error) {
	l := &Link{g: g, start: s, who: who, exited: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(g.ctx)
	if !g.Do(l.run) {
		l.cancel()
		return nil, g.gone()
	}
	return l, nil
}

func (l *Link) run() {
	defer close(l.exited)
	defer l.cancel()
	err := relay.Run(l.ctx, l.start.In, l.start.Out, l.dial, l.who, false)
	l.cancel()
	l.served.Wait()
	l.start.In.Close()
	l.start.Out.Close()
	how := "its input has ended"
	if err != nil {
		how = fs.Text(err)
	}
	l.start.Gone(how)
}

// dial connects the relay to the endpoint.
func (l *Link) dial(context.Context) (net.Conn, error) {
	ours, its := net.Pipe()
	l.served.Go(func() { l.g.MCP.ServeFor(l.ctx, its, l.who) })
	return ours, nil
}

// Exited is closed when nothing of the session is left.
func (l *Link) Exited() <-chan struct{} { return l.exited }

// Wait waits a while for that, and reports whether it came.
func (l *Link) Wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Terminate ends the session.
func (l *Link) Terminate() { l.cancel() }

// Kill ends the session, and waits for its end.
func (l *Link) Kill() {
	l.cancel()
	<-l.exited
}

// PID is 0: there is no process.
func (l *Link) PID() int { return 0 }
