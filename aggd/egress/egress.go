// Package egress gives the guest of one VM its way out: it runs the proxy as a
// child, hands it each connection of the guest, and tells what it did. No byte
// of the guest is looked at here.
package egress

import (
	"context"
	"encoding/json"
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
)

// Config says what to run and who is told.
type Config struct {
	Path    string // the program locald
	Network wire.Network
	Log     io.Writer // the proxy's standard error
	// Event is told of each request when it has ended. What was under way when
	// the proxy died has ended with that.
	Event func(wire.NetEvent)
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
	to      *net.UnixConn // the process's standard input; nil while none runs
	p       *process.Process
	change  chan struct{} // closed when to changes
	cause   error         // why it is nil
	closed  bool
}

const (
	patience = time.Second     // how long a connection waits for a proxy that died and is being started again
	sendTime = 5 * time.Second // for a line to be taken
)

// Start starts the proxy, which ends with Close. It succeeds even where there is
// no program to run: connections are told so then.
func Start(cfg Config) *Proxy {
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
		p.put(wire.ProxyLine{Network: &n}, nil)
	}
}

// once runs one process and returns why it ended.
func (p *Proxy) once(ctx context.Context) error {
	ours, theirs, err := pair()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	defer ours.Close()
	run := &run{event: p.cfg.Event, begun: map[uint64]wire.NetEvent{}, log: p.cfg.Log}
	proc, err := process.Start(process.Config{
		Path: p.cfg.Path, Args: []string{"proxy"}, In: theirs, Log: p.cfg.Log, Read: run.read, Gone: run.gone,
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
		err = fmt.Errorf("%w: the proxy is closed", fs.ErrIO)
	}
	p.set(nil, nil, err)
	ours.Close()
	proc.End()
	return err
}

// set says which process runs, or why none does, and tells it its network.
func (p *Proxy) set(to *net.UnixConn, proc *process.Process, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to, p.p, p.cause = to, proc, cause
	if to != nil {
		p.put(wire.ProxyLine{Network: &p.network}, nil)
	}
	close(p.change)
	p.change = make(chan struct{})
}

// errDown is returned for a line that no process has taken.
var errDown = fmt.Errorf("%w: the proxy is down", fs.ErrIO)

// put writes a line; mu is held.
func (p *Proxy) put(l wire.ProxyLine, rights []byte) error {
	line, err := json.Marshal(l)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	p.to.SetWriteDeadline(time.Now().Add(sendTime))
	if rights != nil {
		_, _, err = p.to.WriteMsgUnix(line, rights, nil)
	} else {
		_, err = p.to.Write(line)
	}
	if err != nil {
		p.to.Close() // half a line may be out: this one is of no more use
		p.to, p.cause = nil, errDown
		return errDown
	}
	return nil
}

// Serve hands a connection of the guest to the proxy. It returns when that has
// it; the connection is closed here in any case.
func (p *Proxy) Serve(ctx context.Context, c net.Conn) error {
	late := make(chan struct{})
	patient := time.AfterFunc(patience, func() { close(late) })
	defer patient.Stop()
	for {
		err := p.await(ctx, late)
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

// await waits for a process that is being started again, until late; the first
// it awaits, for that runs soon, or says why not.
func (p *Proxy) await(ctx context.Context, late <-chan struct{}) error {
	for overdue := false; ; {
		p.mu.Lock()
		to, change, cause, closed := p.to, p.change, p.cause, p.closed
		p.mu.Unlock()
		switch {
		case closed:
			return fmt.Errorf("%w: the proxy is closed", fs.ErrIO)
		case to != nil:
			return nil
		case errors.Is(cause, fs.ErrNotExist):
			return cause
		case overdue && cause != nil:
			return cause
		}
		select {
		case <-change:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			overdue, late = true, nil
		}
	}
}

// Refuse tells the guest on c, in HTTP, that there is no proxy for it, and
// closes c.
func Refuse(c net.Conn, why error) {
	text := "hutch: " + fs.Text(why) + "\n"
	c.SetWriteDeadline(time.Now().Add(sendTime))
	fmt.Fprintf(c, "HTTP/1.1 503 no proxy\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	c.Close()
}
