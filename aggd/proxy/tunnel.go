package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/wire"
)

// alert is what a TLS client is sent when its tunnel is refused: access_denied.
const alert = "\x15\x03\x03\x00\x02\x02\x31"

// tunnel connects the guest with a server, for TLS. If plain is true and HTTP comes
// instead, its requests are served each by itself.
func (x *exchange) tunnel(ctx context.Context, w http.ResponseWriter, plain bool) {
	up, err := x.policy.dial(ctx, "tcp", joinPort(x.event.Host, x.event.Port))
	if err != nil {
		status := http.StatusForbidden
		if x.verdict = x.policy.unreached(x.event.Host, err); x.decision != wire.Denied {
			status = http.StatusBadGateway
		}
		x.refuse(w, status)
		return
	}
	defer up.Close()
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		x.breakOff("%v", err)
		return
	}
	stop := context.AfterFunc(ctx, func() { c.Close(); up.Close() })
	handed := false
	defer func() {
		if !handed {
			stop()
			c.Close()
		}
	}()
	x.event.Status = http.StatusOK
	c.SetDeadline(time.Now().Add(headTime))
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	server, hello, err := clientHello(buf.Reader)
	if own, ok := c.(*conn); ok && plain && errors.Is(err, errNotTLS) && isHTTP(hello) && stop() {
		handed = true
		rest, _ := buf.Reader.Peek(buf.Reader.Buffered())
		x.s.conns.again(own, tunnelled{x.event.Host, x.event.Port}, append(hello, rest...))
		return
	}
	if !x.checkHello(c, server, err) {
		return
	}
	until := time.Now().Add(x.policy.timeout)
	c.SetDeadline(until)
	up.SetDeadline(until)
	x.sent.Add(int64(len(hello)))
	if _, err := up.Write(hello); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { x.pass(up, &meter{io.NopCloser(buf.Reader), x, &x.sent}, c, up) })
	both.Go(func() { x.pass(c, &meter{up, x, &x.received}, c, up) })
	both.Wait()
}

// checkHello reports whether a tunnel may go on. server is the name that its TLS asks for,
// err why that could not be read.
func (x *exchange) checkHello(c net.Conn, server string, err error) bool {
	switch {
	case errors.Is(err, errNotTLS):
		x.verdict, x.event.Status = deny("tls", "a tunnel must carry TLS or HTTP, and the one to %s does not", x.event.Host), http.StatusForbidden
		io.WriteString(c, raw(http.StatusForbidden, "hutch: "+x.reason, x.text()))
		return false
	case err != nil:
		return false // it has hung up, or said nothing for too long
	case server == "":
		return true
	}
	if name, err := guard.Host(server); err != nil || name != x.event.Host {
		x.verdict, x.event.Status = deny("tls", "the tunnel is to %s, and the TLS in it asks for %s", x.event.Host, printable(server)), http.StatusForbidden
		io.WriteString(c, alert)
		return false
	}
	return true
}

// pass copies from in to out until the end, which it passes on; after an error
// both sides are closed.
func (x *exchange) pass(out net.Conn, in io.Reader, sides ...net.Conn) {
	_, err := io.Copy(out, in)
	if half, ok := out.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		x.breakOff("cut off after %v: timeout in [network] of the profile %s", x.policy.timeout, x.policy.profile)
	}
	for _, c := range sides {
		c.Close()
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
