package oauth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"hutch/aggd/guard"
	"hutch/fs"
)

// A callback is where the browser of who logs in returns to: a port of this
// machine's loopback (RFC 8252, 7.3), while the login waits.
type callback struct {
	URL string

	state    string // that the browser brings back
	server   *http.Server
	returned chan url.Values // one
	served   chan struct{}
}

const callbackPath = "/callback"

// listen opens a callback at a port, 0: any. Host is what a browser calls this
// machine.
func listen(host string, port int, state string) (*callback, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the port that the browser returns to: %w", err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	b := &callback{
		URL:      "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + callbackPath,
		state:    state,
		returned: make(chan url.Values, 1),
		served:   make(chan struct{}),
	}
	b.server = &http.Server{
		Handler:           b,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
	go func() {
		defer close(b.served)
		b.server.Serve(l)
	}()
	return b, nil
}

// ServeHTTP takes what the browser brings. Whoever else comes does not know the
// state, and is turned away.
func (b *callback) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	query := req.URL.Query()
	switch {
	case req.Method != http.MethodGet || req.URL.Path != callbackPath:
		http.NotFound(w, req)
		return
	case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(b.state)) != 1:
		http.Error(w, "This is not the login that hutch waits for.", http.StatusBadRequest)
		return
	}
	select {
	case b.returned <- query:
	default: // it was here before
	}
	fmt.Fprintln(w, "Done. hutch tells whether the login succeeded; this page can be closed.")
}

// wait returns what the browser has brought.
func (b *callback) wait(ctx context.Context) (url.Values, error) {
	select {
	case got := <-b.returned:
		return got, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// close ends the callback. The browser gets the page that it is being sent.
func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		b.server.Close()
	}
	<-b.served
}

// code returns the code that the browser has brought from an authorization server.
func (a *authority) code(got url.Values) (string, error) {
	iss, named := got.Get("iss"), got.Has("iss")
	switch {
	case a.Issuer != "" && named && iss != a.Issuer:
		return "", fmt.Errorf("%w: the browser returned from another issuer, %q, than %q", guard.ErrRefused, fs.Shorten(iss), fs.Shorten(a.Issuer))
	case a.NamesItself && !named:
		return "", fmt.Errorf("%w: the browser returned, and does not say from which issuer", guard.ErrRefused)
	case got.Get("error") != "":
		return "", fmt.Errorf("%w: %s refuses: %s", fs.ErrPermission, a, said(got.Get("error"), got.Get("error_description"), ""))
	case got.Get("code") == "":
		return "", fmt.Errorf("%w: the browser returned without a code", fs.ErrInvalid)
	}
	return got.Get("code"), nil
}
