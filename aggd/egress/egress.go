// Package egress is hutchd's side of the proxy of one VM: it runs the proxy as a
// child, hands it each connection of the guest, and reports each request. No byte
// from the guest is parsed here.
package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"hutch/aggd/process"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/fs/duplex"
)

// Config says what to run and who is told.
type Config struct {
	Path    string // the program locald
	Network wire.Network
	Log     io.Writer // the proxy's standard error
	// Event is told of each request when it has ended. What was under way when
	// the proxy died has ended with that.
	Event func(wire.NetEvent)
	// Decide decides a request that the patterns allow, where Network says that it is
	// to be asked. The context ends when nobody waits for it any more. If it is nil,
	// what asks is refused.
	Decide func(context.Context, wire.NetEvent) wire.NetAnswer
	// Down is told that the proxy died or could not be started.
	Down func(error)
}

// A Proxy is one that is kept running.
type Proxy struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
	copies sync.WaitGroup // of connections that have no descriptor to pass

	mu      sync.Mutex // guards what follows
	network wire.Network
	to      *wire.Socket // the process's standard input; nil while none runs
	p       *process.Process
	change  chan struct{} // closed when to changes
	cause   error         // why it is nil
	closed  bool
}

// sendTime is how long a refusal may take to be sent.
const sendTime = 5 * time.Second

// Start starts the proxy, which ends with Close. It succeeds even where there is
// no program to run: connections are told so then.
func Start(cfg Config) *Proxy {
	if cfg.Decide == nil {
		cfg.Decide = func(context.Context, wire.NetEvent) wire.NetAnswer {
			return wire.NetAnswer{Reason: "there is nobody to decide it"}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{cfg: cfg, ctx: ctx, cancel: cancel, done: make(chan struct{}), network: cfg.Network, change: make(chan struct{})}
	go func() {
		defer close(p.done)
		process.Keep(ctx, p.once, cfg.Down)
	}()
	return p
}

// Close ends the proxy with all connections, and waits until nothing is left.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.done
	p.copies.Wait()
	return nil
}

// PID returns the id of the process that runs, 0 while there is none.
func (p *Proxy) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p == nil {
		return 0
	}
	return p.p.PID()
}

// Set changes what the guest may reach. What is under way goes on.
func (p *Proxy) Set(n wire.Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network = n
	if p.to != nil {
		p.put(wire.ProxyLine{Network: &n})
	}
}

// once runs one process and returns why it ended.
func (p *Proxy) once(ctx context.Context) error {
	conn, theirs, err := duplex.Pair()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	ours := wire.NewSocket(conn, 0) // the proxy answers on its output
	defer ours.Close()
	run := &run{
		event: p.cfg.Event, begun: map[uint64]wire.NetEvent{}, log: p.cfg.Log,
		asked: &asked{decide: p.cfg.Decide, answer: p.answer, cancel: map[uint64]context.CancelFunc{}},
	}
	proc, err := process.Start(process.Config{
		Path: p.cfg.Path, Args: []string{"proxy"}, Confined: true, In: theirs, Log: p.cfg.Log, Read: run.read, Gone: run.gone,
	})
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("%w: the proxy's program %s is missing", fs.ErrNotExist, p.cfg.Path)
		}
		p.set(nil, nil, err)
		return err
	}
	p.set(ours, proc, nil)
	select {
	case <-proc.Exited():
		err = fmt.Errorf("%w: the proxy died (%s)", fs.ErrIO, run.how)
	case <-ctx.Done():
		err = errClosed
	}
	p.set(nil, nil, err)
	ours.Close()
	proc.End()
	return err
}

// set says which process runs, or why none does, and tells it its network.
func (p *Proxy) set(to *wire.Socket, proc *process.Process, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to, p.p, p.cause = to, proc, cause
	if to != nil {
		p.put(wire.ProxyLine{Network: &p.network})
	}
	close(p.change)
	p.change = make(chan struct{})
}

var (
	// errDown is returned for a line that no process has taken.
	errDown   = fmt.Errorf("%w: the proxy is down", fs.ErrIO)
	errClosed = fmt.Errorf("%w: the proxy is closed", fs.ErrIO)
)

// put writes a line; mu is held.
func (p *Proxy) put(l wire.ProxyLine, fds ...int) error {
	if err := p.to.Send(l, fds...); err != nil { // this one is of no more use
		p.to, p.cause = nil, errDown
		return errDown
	}
	return nil
}

// answer tells the proxy what was decided of a request.
func (p *Proxy) answer(n wire.NetAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to != nil {
		p.put(wire.ProxyLine{Answer: &n})
	}
}

// Serve hands a connection of the guest to the proxy. It returns when that has
// it; the connection is closed here in any case.
func (p *Proxy) Serve(ctx context.Context, c net.Conn) error {
	late, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		err := process.Await(ctx, late.Done(), p.look)
		if err == nil {
			if err = p.hand(c); errors.Is(err, errDown) { // that one has just died
				continue
			}
		}
		if err != nil {
			Refuse(c, err)
		}
		return err
	}
}

// look is for process.Await.
func (p *Proxy) look() (over bool, change <-chan struct{}, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return true, nil, errClosed
	}
	return p.to != nil, p.change, p.cause
}

// Refuse tells the guest on c, in HTTP, that there is no proxy for it, and
// closes c.
func Refuse(c net.Conn, why error) {
	text := "hutch: " + fs.Text(why) + "\n"
	c.SetWriteDeadline(time.Now().Add(sendTime))
	fmt.Fprintf(c, "HTTP/1.1 503 no proxy\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	c.Close()
}
