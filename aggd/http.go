package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
)

const (
	sessionHeader  = "Mcp-Session-Id"
	protocolHeader = "MCP-Protocol-Version"
	maxRedirects   = 10
	eventStream    = "text/event-stream"
)

// A httpError is an answer that is no success.
type httpError struct {
	status int
	text   string          // the start of the body
	more   string          // what a user is to know beside
	rpc    jsonrpc.Message // the body, where it is an answer of JSON-RPC with an error
}

// Unwrap returns the error of JSON-RPC that the server gave, or nil.
func (e *httpError) Unwrap() error {
	if e.rpc.Error == nil {
		return nil
	}
	return jsonrpc.Received(e.rpc.Error)
}

func (e *httpError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("HTTP %d %s%s", e.status, http.StatusText(e.status), e.more)
	}
	return fmt.Sprintf("HTTP %d %s: %s%s", e.status, http.StatusText(e.status), e.text, e.more)
}

// answers reports whether the body is the answer to q.
func (e *httpError) answers(q *call) bool {
	id, ok := jsonrpc.Number(e.rpc.ID)
	return ok && q != nil && id == q.id
}

// A httpPeer makes requests of one server with its credentials.
type httpPeer struct {
	def    definition
	limit  func() int // of a message
	client *http.Client

	program *programs.Program // that it reaches alone; nil: it reaches the network
}

func newHTTPPeer(def definition, limit func() int) *httpPeer {
	p := &httpPeer{def: def, limit: limit}
	p.client = &http.Client{
		CheckRedirect: redirect,
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: def.connectTimeout()}).DialContext,
			TLSHandshakeTimeout:   def.connectTimeout(),
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
			ResponseHeaderTimeout: 0, // a call may take as long as its own limit
		},
	}
	return p
}

// redirect follows a redirect to another path. To another server it takes neither
// the credentials nor what is asked, and it does not let a message become a GET.
func redirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) >= maxRedirects:
		return errors.New("too many redirects")
	case req.Method != first.Method:
		return fmt.Errorf("redirected to %s in a way that drops the message", req.URL.Host)
	case req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme:
		return fmt.Errorf("redirected to another server, %s://%s: if it is to be asked, name it in url", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// do makes a request with the server's headers. One that is refused for its token is
// made once more, if there is another.
func (p *httpPeer) do(ctx context.Context, method, target string, body []byte, header http.Header) (*http.Response, error) {
	token := p.token()
	resp, err := p.try(ctx, method, target, body, header, token)
	b := p.def.bearer
	if b == nil || err != nil {
		return resp, err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		next, ok := b.another(ctx, token)
		if !ok {
			return resp, nil
		}
		resp.Body.Close()
		token = next
		if resp, err = p.try(ctx, method, target, body, header, token); err != nil {
			return nil, err
		}
	}
	b.took(token, resp.StatusCode != http.StatusUnauthorized)
	return resp, nil
}

// token returns the token that the server is shown; "": there is none.
func (p *httpPeer) token() string {
	if p.def.bearer == nil {
		return p.def.BearerToken
	}
	return p.def.bearer.get()
}

func (p *httpPeer) try(ctx context.Context, method, target string, body []byte, header http.Header, token string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the url is not valid")
	}
	for name, value := range p.def.Headers {
		req.Header.Set(name, value)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	maps.Copy(req.Header, header)
	var connected atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	resp, err := p.client.Do(req)
	if err = plain(err); err != nil && !connected.Load() && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errNotSent, err)
	}
	return resp, p.why(ctx, err)
}

// post posts a message. The trace that it is part of is in a header, too.
func (p *httpPeer) post(ctx context.Context, target string, msg []byte, header http.Header) (*http.Response, error) {
	header.Set("Content-Type", "application/json")
	parent, state := trace.InMeta(rawjson.Get(msg, "params", "_meta"))
	if _, ok := trace.Parse(parent); ok {
		header.Set(trace.Parent, parent)
		if trace.ValidState(state) {
			header.Set(trace.State, state)
		}
	}
	return p.do(ctx, http.MethodPost, target, msg, header)
}

// stream opens a stream of events.
func (p *httpPeer) stream(ctx context.Context, header http.Header) (*http.Response, error) {
	header.Set("Accept", eventStream)
	resp, err := p.do(ctx, http.MethodGet, p.def.URL, nil, header)
	if err == nil && (resp.StatusCode != http.StatusOK || contentType(resp) != eventStream) {
		err = p.failure(resp)
		resp.Body.Close()
	}
	return resp, err
}

// plain takes the URL out of an error, for there may be a secret in it.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// failure reads an answer that is no success: the start of it, and all where it
// may be an answer of JSON-RPC.
func (p *httpPeer) failure(resp *http.Response) *httpError {
	e := &httpError{status: resp.StatusCode}
	if p.def.bearer != nil && e.status == http.StatusUnauthorized {
		e.more = " (" + p.def.bearer.again() + ")"
	}
	limit, kind := 300, contentType(resp)
	if kind == "application/json" {
		limit = p.limit()
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, int64(limit)))
	text = bytes.TrimPrefix(text, []byte(mark))
	if m, err := jsonrpc.Parse(rawjson.OneLine(text)); err == nil && kind == "application/json" && m.Answers() && m.Error != nil {
		e.rpc = m
	}
	text = text[:min(len(text), 300)]
	e.text = strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " ")
	return e
}

// body reads a whole message. One over the limit is a wire.TooLong.
func (p *httpPeer) body(resp *http.Response) ([]byte, error) {
	limit := p.limit()
	b := wire.NewBounded(limit)
	if _, err := io.Copy(b, io.LimitReader(resp.Body, int64(limit)+wire.Endless)); err != nil {
		return nil, plain(err)
	}
	text, err := b.Bytes()
	return rawjson.OneLine(text), err
}

func contentType(resp *http.Response) string {
	t, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
