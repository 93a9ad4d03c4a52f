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

// most is how many connections there are at once: the host takes no more.
const most = 256

// Serve carries the connections that come in on l until ctx is done, closes l,
// and waits for all of them to end.
func Serve(ctx context.Context, l net.Listener, dial Dial) error {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, most)
	return accept.Serve(ctx, l, func(c net.Conn) {
		select {
		case slots <- struct{}{}: // until then the others wait in the listener's queue
		case <-ctx.Done():
			c.Close()
			return
		}
		work.Go(func() {
			defer func() { <-slots }()
			carry(ctx, c, dial)
		})
	}, nil)
}

// dialTime is how long the host has to answer.
const dialTime = 10 * time.Second

// carry carries one connection.
func carry(ctx context.Context, c net.Conn, dial Dial) {
	defer c.Close()
	dialling, cancel := context.WithTimeout(ctx, dialTime)
	host, err := dial(dialling)
	cancel()
	if err != nil {
		refuse(c)
		return
	}
	defer host.Close()
	stop := context.AfterFunc(ctx, func() { host.Close() })
	defer stop()
	if _, err := host.Write(preamble(program(c))); err != nil {
		refuse(c)
		return
	}
	duplex.Join(ctx, host, c)
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
