package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"strings"

	"hutch/aggd/wire"
)

// forward makes a plain request anew and passes the answer on.
func (x *exchange) forward(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		// A server that ignores an Upgrade goes on in HTTP.
		r.Header.Del("Upgrade")
		r.Header.Del("Http2-Settings")
	}
	if r.Body != nil {
		r.Body = &meter{r.Body, x, &x.sent}
	}
	host := x.event.Host
	if x.event.Port != 80 || strings.Contains(host, ":") {
		host = joinPort(host, x.event.Port)
	}
	p := httputil.ReverseProxy{
		Transport:     x.policy.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // what went wrong is told
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.Host = "http", host, host
		},
		ModifyResponse: x.answered,
		ErrorHandler:   x.failed,
	}
	p.ServeHTTP(w, r)
}

// answered is told of the server's answer before it is passed on.
func (x *exchange) answered(r *http.Response) error {
	x.event.Status = r.StatusCode
	m := &meter{r.Body, x, &x.received}
	if up, ok := r.Body.(io.ReadWriteCloser); ok && r.StatusCode == http.StatusSwitchingProtocols {
		r.Body = &meteredSocket{m, up}
	} else {
		r.Body = m
	}
	return nil
}

// A meteredSocket is what speaks another protocol after an answer: a WebSocket.
type meteredSocket struct {
	*meter
	up io.ReadWriteCloser
}

func (m *meteredSocket) Write(p []byte) (int, error) {
	if err := m.x.countTo(&m.x.sent, len(p)); err != nil {
		return 0, err
	}
	return m.up.Write(p)
}

// failed answers a request that got no answer.
func (x *exchange) failed(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	x.verdict = x.policy.unreached(x.event.Host, err)
	switch ctx := r.Context(); {
	case x.decision == wire.Denied:
		status = http.StatusForbidden
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		status, x.reason = http.StatusGatewayTimeout, context.Cause(ctx).Error()
	case ctx.Err() != nil:
		x.reason = "the guest hung up"
	}
	x.cutMu.Lock()
	if x.cut != "" {
		status, x.reason = http.StatusRequestEntityTooLarge, x.cut
	}
	x.cutMu.Unlock()
	x.refuse(w, status)
}
