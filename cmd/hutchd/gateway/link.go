package gateway

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"hutch/aggd/programs"
	"hutch/fs"
	"hutch/profiles"
	"hutch/relay"
)

// A Link is a session of a gateway that stands where another gateway's program
// would: what that is sent, the session is sent. It is a programs.Task.
type Link struct {
	g      *Gateway
	start  programs.Start
	who    string // as the ledger has it
	ctx    context.Context
	cancel context.CancelCauseFunc
	served sync.WaitGroup
	exited chan struct{}
}

// Link makes a session of the gateway in which who asks, over the pipes of a start.
// It fails, and leaves the pipes as they are, if the gateway is closed.
func (g *Gateway) Link(s programs.Start, who string) (*Link, error) {
	l := &Link{g: g, start: s, who: who, exited: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(g.ctx)
	g.linksMu.Lock()
	defer g.linksMu.Unlock()
	if !g.Do(l.run) {
		l.cancel(nil)
		return nil, g.gone()
	}
	if g.links == nil {
		g.links = make(map[*Link]struct{})
	}
	g.links[l] = struct{}{}
	return l, nil
}

// EndLinks ends the links of the gateway, which are told why, and waits for that.
func (g *Gateway) EndLinks(why error) {
	g.linksMu.Lock()
	links := slices.Collect(maps.Keys(g.links))
	g.linksMu.Unlock()
	for _, l := range links {
		l.cancel(why)
	}
	for _, l := range links {
		<-l.exited
	}
}

// Served has those that are to have a session of a server of servers/ try again,
// now that it runs.
func (s *Service) Served(server string) {
	wants := func(s profiles.Server) bool { return s.Session == server }
	var waiting []*Gateway
	s.gatewaysMu.Lock()
	for g := range s.gateways {
		if slices.ContainsFunc(g.profile.Load().Servers, wants) {
			waiting = append(waiting, g)
		}
	}
	s.gatewaysMu.Unlock()
	for _, g := range waiting {
		g.MCP.Refresh()
	}
}

func (l *Link) run() {
	defer close(l.exited)
	// Who does not read what the session says does not hold up its end.
	defer context.AfterFunc(l.ctx, func() { l.start.Out.Close() })()
	err := relay.Run(l.ctx, l.start.In, l.start.Out, l.dial, l.who, false)
	if why := context.Cause(l.ctx); why != nil {
		err = why
	}
	l.cancel(nil)
	l.served.Wait()
	l.start.In.Close()
	l.start.Out.Close()
	l.g.linksMu.Lock()
	delete(l.g.links, l)
	l.g.linksMu.Unlock()
	switch {
	case err == nil:
		l.start.Gone("its input has ended")
	case errors.Is(err, context.Canceled):
		l.start.Gone("it was ended")
	default:
		l.start.Gone(fs.Text(err))
	}
}

// dial connects the relay to the endpoint.
func (l *Link) dial(context.Context) (net.Conn, error) {
	ours, its := net.Pipe()
	l.served.Go(func() { l.g.MCP.ServeFor(l.ctx, its, l.who) })
	return ours, nil
}

// Exited is closed when nothing of the session is left.
func (l *Link) Exited() <-chan struct{} { return l.exited }

// Terminate ends the session.
func (l *Link) Terminate() { l.cancel(nil) }

// Kill ends the session, and waits for its end.
func (l *Link) Kill() {
	l.cancel(nil)
	<-l.exited
}

// PID is 0: there is no process.
func (l *Link) PID() int { return 0 }
