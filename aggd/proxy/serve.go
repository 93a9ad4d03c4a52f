package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/wire"
)

// MaxLine is the longest line from hutchd, in bytes.
const MaxLine = 8 << 20

// Limits that hold for every guest.
const (
	maxHead  = 64 << 10         // bytes of the head of a request or answer
	maxConns = 256              // connections of the guest at once
	headTime = 30 * time.Second // for the head of a request, and for the first message of a tunnel
	idleTime = 5 * time.Minute  // between the requests of a connection
)

// A Server is the proxy of one guest.
type Server struct {
	log    *log.Logger
	out    *wire.Writer
	ids    atomic.Uint64
	policy atomic.Pointer[policy]
	conns  *conns
	asking *asking
	busy   sync.WaitGroup // requests

	endedMu sync.Mutex // guards ended
	ended   bool
}

// Serve serves the connections that come on in, and writes a line to out for
// each request, until in ends.
func Serve(ctx context.Context, in *wire.Socket, out io.Writer, errlog io.Writer) error {
	s := &Server{log: log.New(errlog, "", 0), out: wire.NewWriter(out), conns: newConns(), asking: newAsking()}
	s.policy.Store(&policy{}) // nothing is allowed before it is said
	ctx, cancel := context.WithCancel(ctx)
	web := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHead,
		Protocols:         new(http.Protocols),
		ErrorLog:          s.log,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },

		DisableGeneralOptionsHandler: true,
	}
	web.Protocols.SetHTTP1(true)
	served := make(chan error, 1)
	go func() { served <- web.Serve(s.conns) }()
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	err := s.receive(in)
	cancel()
	s.conns.Close()
	web.Close()
	<-served
	s.endedMu.Lock()
	s.ended = true
	s.endedMu.Unlock()
	s.busy.Wait()
	if p := s.policy.Load(); p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	return err
}

// receive does what the lines of in say.
func (s *Server) receive(in *wire.Socket) error {
	defer in.Drop()
	for {
		var l wire.ProxyLine
		err := in.Read(&l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading: %w", err)
		}
		if l.Network != nil {
			s.set(*l.Network)
		}
		if l.Answer != nil {
			s.asking.answer(*l.Answer)
		}
		if l.Conn {
			c, err := connection(in)
			if err != nil { // there was no descriptor left for it
				s.log.Print("connection lost: ", err)
				continue
			}
			s.conns.take(c)
		}
	}
}

// connection returns the connection whose line was read last.
func connection(in *wire.Socket) (net.Conn, error) {
	f, err := in.Take()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return net.FileConn(f)
}

// set puts a policy in force. One that does not parse allows nothing.
func (s *Server) set(n wire.Network) {
	p, err := newPolicy(n)
	if err != nil {
		s.log.Printf("network of profile %s: %v: nothing is allowed", n.Profile, err)
		p, _ = newPolicy(wire.Network{Profile: n.Profile})
	}
	old := s.policy.Swap(p)
	if old.transport != nil {
		old.transport.CloseIdleConnections() // what it had checked may not be reached any more
	}
}

// enter counts a request in, unless the server ends.
func (s *Server) enter() bool {
	s.endedMu.Lock()
	defer s.endedMu.Unlock()
	if !s.ended {
		s.busy.Add(1)
	}
	return !s.ended
}

// decide decides the request: by the patterns, and where these allow it by hutchd,
// if there is more to it.
func (x *exchange) decide(r *http.Request) {
	x.verdict = x.policy.decide(x.event.Host, x.event.Port)
	if x.decision != wire.Allowed || x.policy.decideTime == 0 {
		return
	}
	x.ask(r)
	if x.decision != wire.Allowed {
		return
	}
	// A person may have taken minutes.
	if now := x.s.policy.Load(); now != x.policy {
		x.policy = now
		if v := now.decide(x.event.Host, x.event.Port); v.decision != wire.Allowed {
			x.verdict = v
		}
	}
}

type connKey struct{}

// ServeHTTP does one request of the guest.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.busy.Done()
	p := s.policy.Load()
	x := s.begin(r, p)
	defer x.end()
	var in *tunnelled
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		in = c.in
	}
	host, port, err := target(r, in)
	x.event.Host, x.event.Port = host, port
	if err != nil {
		x.verdict = deny("request", "%v", err)
		x.refuse(w, http.StatusBadRequest)
		return
	}
	if x.decide(r); x.decision != wire.Allowed {
		x.refuse(w, http.StatusForbidden)
		return
	}
	p = x.policy
	x.tell()
	ctx, cancel := context.WithTimeoutCause(r.Context(), p.timeout, fmt.Errorf("timed out after %v", p.timeout))
	defer cancel()
	if r.Method == http.MethodConnect {
		x.tunnel(ctx, w, r.ContentLength == 0) // with a body, nobody could say where it ends
		return
	}
	until := time.Now().Add(p.timeout + headTime) // time enough to tell why it was broken off
	control := http.NewResponseController(w)
	control.SetReadDeadline(until)
	control.SetWriteDeadline(until)
	x.forward(w, r.WithContext(ctx))
}
