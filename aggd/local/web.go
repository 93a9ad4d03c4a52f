package local

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hutch/aggd/guard"
)

// Config says what the tools may reach and how much they may take.
type Config struct {
	AllowPrivate []string      // hosts, addresses and CIDRs that may be reached though they are not public
	MaxBody      int64         // the most bytes of a page that are read; 10 MiB where 0
	Timeout      time.Duration // the longest a call may take; 30 s where 0
	Stay         bool          // do not follow a redirect to another host or port
	roots        *tls.Config   // for tests
}

const (
	maxBody      = 10 << 20
	timeout      = 30 * time.Second
	maxRedirects = 10
)

// A web fetches pages.
type web struct {
	client  *http.Client
	maxBody int64
	timeout time.Duration
}

func newWeb(cfg Config) (*web, error) {
	g, err := guard.New(cfg.AllowPrivate)
	if err != nil {
		return nil, err
	}
	w := &web{maxBody: cmp.Or(max(cfg.MaxBody, 0), maxBody), timeout: cmp.Or(max(cfg.Timeout, 0), timeout)}
	w.client = &http.Client{
		CheckRedirect: redirecting(cfg.Stay),
		Transport: &http.Transport{
			DialContext:            g.Dial, // and no Proxy: the environment has no say
			TLSClientConfig:        cfg.roots,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true,
			ForceAttemptHTTP2:      true,
		},
	}
	return w, nil
}

// redirecting returns a CheckRedirect that follows to where a URL could lead too;
// the address is judged when it is dialled. With stay it follows only to the same
// host and port: who decides about calls by their URLs has not seen another.
func redirecting(stay bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		req.Header.Del("Referer")
		if err := checkURL(req.URL); err != nil {
			return err
		}
		if stay && !samePlace(via[0].URL, req.URL) {
			return fmt.Errorf("%w: redirected to another host or port: call again with %.500q", guard.ErrRefused, req.URL)
		}
		return nil
	}
}

// samePlace tells whether two URLs are of one host and port, or the second is that
// of the host's usual port for https.
func samePlace(from, to *url.URL) bool {
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return strings.EqualFold(from.Hostname(), to.Hostname()) && (port(from) == port(to) || port(from) == "80" && port(to) == "443" && to.Scheme == "https")
}

func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w: only http and https URLs are fetched, not %.20q", guard.ErrRefused, u.Scheme)
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	}
	return nil
}

// A page is what a URL answered.
type page struct {
	url    *url.URL // after redirects
	status string
	code   int
	proto  string
	header http.Header
	body   []byte
	cut    bool   // there was more
	kind   string // media type
	params map[string]string
	notes  []string
}

// get requests a URL and reads the body of the answer, where that is wanted, up
// to the cap.
func (w *web) get(ctx context.Context, method, target string, body bool) (*page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, fmt.Errorf("timed out after %v", w.timeout))
	defer cancel()
	resp, err := w.do(ctx, method, target)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	p := newPage(resp)
	if !body {
		return p, nil
	}
	p.body, err = io.ReadAll(io.LimitReader(resp.Body, w.maxBody+1))
	if err != nil {
		return nil, plain(ctx, err)
	}
	if p.cut = int64(len(p.body)) > w.maxBody; p.cut {
		p.body = p.body[:w.maxBody]
		p.note(fmt.Sprintf("Truncated: only the first %d bytes were read", w.maxBody))
	}
	p.sniff()
	return p, nil
}

func (w *web) do(ctx context.Context, method, target string) (*http.Response, error) {
	u, err := url.Parse(strings.TrimSpace(target))
	if err != nil || target == "" {
		return nil, fmt.Errorf("not a URL: %.100q", target)
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %.100q", target)
	}
	req.Header.Set("User-Agent", "hutch-local/1")
	req.Header.Set("Accept", "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, plain(ctx, err)
	}
	return resp, nil
}

// plain returns the cause of an error without the URL, which the caller knows.
func plain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func newPage(resp *http.Response) *page {
	p := &page{
		url:    resp.Request.URL,
		status: resp.Status,
		code:   resp.StatusCode,
		proto:  resp.Proto,
		header: resp.Header,
	}
	p.kind, p.params, _ = mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return p
}

// sniff finds the media type of a page that does not say.
func (p *page) sniff() {
	if p.kind == "" {
		p.kind, p.params, _ = mime.ParseMediaType(http.DetectContentType(p.body))
	}
}

func (p *page) note(line string) { p.notes = append(p.notes, line) }

// fault returns the status of an answer that is no success as an error.
func (p *page) fault() error {
	if p.code >= 400 {
		return errors.New(p.status)
	}
	return nil
}

// headers shows the status and the headers.
func (p *page) headers() string {
	var b strings.Builder
	fmt.Fprintf(&b, "URL: %s\nStatus: %s\nProtocol: %s\n\n", p.url.Redacted(), p.status, p.proto)
	var names []string
	for name := range p.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range p.header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.ToValidUTF8(value, "\ufffd"))
		}
	}
	return b.String()
}
