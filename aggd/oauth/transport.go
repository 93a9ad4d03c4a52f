package oauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/fs"
)

const (
	answerTime   = 30 * time.Second // for the whole of an answer
	maxAnswer    = 256 << 10        // bytes of one
	maxRedirects = 5
	maxURL       = 2000 // bytes
)

// A transport says which hosts are asked.
type transport struct {
	named  map[string]bool // hosts that a person has named, wherever they are
	inside bool            // one of them is this machine

	roots *tls.Config       // for tests
	over  http.RoundTripper // for tests, in place of the network
}

func newTransport(urls []string) transport {
	t := transport{named: make(map[string]bool)}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			t.named[u.Hostname()] = true
			t.inside = t.inside || guard.IsLocal(u.Hostname())
		}
	}
	return t
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil && (t.named[host] || t.inside && guard.IsLocal(host)) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return guard.Public.Dial(ctx, network, address)
}

// client returns a client whose requests end with ctx. What the environment says of
// proxies does not count: one would look up names by itself.
func (c *Client) client(ctx context.Context) *http.Client {
	over := c.net.over
	if over == nil {
		over = &http.Transport{
			DialContext:            c.net.dial,
			TLSClientConfig:        c.net.roots,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true, // of so few requests
			ForceAttemptHTTP2:      true,
		}
	}
	return &http.Client{CheckRedirect: redirect, Transport: &bounded{ctx, c.patience, over}}
}

// redirect follows a redirect to another path, and does not let a request become another.
func redirect(req *http.Request, via []*http.Request) error {
	req.Header.Del("Referer")
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d redirects", guard.ErrRefused, maxRedirects)
	case req.Method != first.Method:
		return fmt.Errorf("%w: redirected in a way that drops what was sent", guard.ErrRefused)
	case req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme:
		return fmt.Errorf("%w: redirected to another place, %s", guard.ErrRefused, fs.Shorten(req.URL.Scheme+"://"+req.URL.Host))
	}
	return nil
}

// bounded has requests end with life and when their time is over, and answers be of
// maxAnswer bytes at most.
type bounded struct {
	life context.Context
	time time.Duration
	http.RoundTripper
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), b.time)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	resp, err := b.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("%w: an answer of more than %d KiB", fs.ErrTooLarge, maxAnswer>>10)
	}
	if err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// CheckURL says why no token is asked for or sent there.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || len(text) > maxURL || strings.ContainsFunc(text, isUnprintable):
		return fmt.Errorf("%q is no URL", fs.Shorten(text))
	case u.User != nil:
		return errors.New("the URL has a login in it")
	case u.Scheme != "https" && !(u.Scheme == "http" && guard.IsLocal(u.Hostname())):
		return fmt.Errorf("%q is not https", fs.Shorten(text))
	case u.Fragment != "":
		return fmt.Errorf("%q has a # in it", fs.Shorten(text))
	}
	return nil
}

func isUnprintable(r rune) bool { return r <= ' ' || r > '~' }

// origin returns the scheme, host and port of a URL.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// unreached returns an error of HTTP without the URL, which may have a secret in it.
func (c *Client) unreached(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if late, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && late.Timeout() {
		return fmt.Errorf("%w: no whole answer within %v", fs.ErrTimedOut, c.patience)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return noToken(err)
}

// noToken says in words of its own what x/oauth2, whose errors have no types, says of an
// answer that is no token.
func noToken(err error) error {
	text, is := strings.CutPrefix(err.Error(), "oauth2: ")
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case !is:
		return err
	case has("missing access_token"):
		text = "it has no access_token"
	case has("strconv.") || has("invalid number literal"):
		text = "its expires_in is no whole number of seconds"
	case has("cannot unmarshal"):
		text = "its fields are not those of RFC 6749"
	case has("cannot parse json"):
		text = "it is no JSON"
	default:
		text = "it cannot be read"
	}
	return fmt.Errorf("the answer is no token: %s", text)
}
