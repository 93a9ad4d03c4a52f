// Package forward lets programs in a guest reach the host's HTTP proxy: it listens
// on the guest's loopback and passes each connection on to the host as it is,
// behind a line that names the program it is from.
package forward

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"hutch/fs/accept"
	"hutch/fs/duplex"
)

// A Dial connects to the host's proxy.
type Dial func(context.Context) (net.Conn, error)

// A Forwarder is one that listens.
type Forwarder struct {
	l      net.Listener
	dial   Dial
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Listen begins to listen.
func Listen(address string, dial Dial) (*Forwarder, error) {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return nil, err
	}
	f := &Forwarder{l: l, dial: dial}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.work.Go(f.accept)
	return f, nil
}

// Addr returns where it listens.
func (f *Forwarder) Addr() net.Addr { return f.l.Addr() }

// Close ends listening and every connection, and waits for them.
func (f *Forwarder) Close() error {
	f.cancel()
	err := f.l.Close()
	f.work.Wait()
	return err
}

// most is how many connections there are at once: the host takes no more.
const most = 256

func (f *Forwarder) accept() {
	slots := make(chan struct{}, most)
	accept.Serve(f.ctx, f.l, func(c net.Conn) {
		select {
		case slots <- struct{}{}: // until then the others wait in the listener's queue
		case <-f.ctx.Done():
			c.Close()
			return
		}
		f.work.Go(func() {
			defer func() { <-slots }()
			f.carry(c)
		})
	}, nil)
}

// dialTime is how long the host has to answer.
const dialTime = 10 * time.Second

// carry carries one connection.
func (f *Forwarder) carry(c net.Conn) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(f.ctx, dialTime)
	host, err := f.dial(ctx)
	cancel()
	if err != nil {
		refuse(c)
		return
	}
	defer host.Close()
	stop := context.AfterFunc(f.ctx, func() { host.Close() })
	defer stop()
	if _, err := host.Write(preamble(program(c))); err != nil {
		refuse(c)
		return
	}
	duplex.Join(f.ctx, host, c)
}

// refuse tells a program that there is no proxy.
func refuse(c net.Conn) {
	const text = "hutch: the host's proxy does not answer: try again, or look at net in the VM's config\n"
	fmt.Fprintf(c, "HTTP/1.1 503 no proxy\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	// Closed with something unread, the connection would be reset, and the
	// answer lost.
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, c)
}
