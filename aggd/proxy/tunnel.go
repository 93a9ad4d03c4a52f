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

// tunnel connects the guest with a server that it will speak TLS with.
func (x *exchange) tunnel(ctx context.Context, w http.ResponseWriter) {
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
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close(); up.Close() })
	defer stop()
	x.event.Status = http.StatusOK
	c.SetDeadline(time.Now().Add(headTime))
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	hello, ok := x.readHello(c, buf.Reader)
	if !ok {
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

// readHello reads what the guest begins a tunnel with, and reports whether the
// tunnel may go on.
func (x *exchange) readHello(c net.Conn, in io.Reader) (hello []byte, ok bool) {
	server, hello, err := clientHello(in)
	switch {
	case errors.Is(err, errNotTLS):
		x.verdict = deny("tls", "a tunnel must carry TLS, and the one to %s does not", x.event.Host)
		io.WriteString(c, raw(http.StatusForbidden, "hutch: "+x.reason, x.text()))
		return nil, false
	case err != nil:
		return nil, false // it has hung up, or said nothing for too long
	}
	if server == "" {
		return hello, true
	}
	if name, err := guard.Host(server); err != nil || name != x.event.Host {
		x.verdict = deny("tls", "the tunnel is to %s, and the TLS in it asks for %s", x.event.Host, printable(server))
		io.WriteString(c, alert)
		return nil, false
	}
	return hello, true
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
