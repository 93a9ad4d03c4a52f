package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/fs"
)

const (
	maxBytes     = 32 << 20         // of a file or an answer
	maxTotal     = 8                // times that, of all pages of an API
	maxPages     = 2000             // of an API
	pageSize     = 100              // entries, which is the most that an API gives
	readLimit    = 10 * time.Minute // for a source: the MCP registry has 500 pages, and takes up to half a second for each
	answerLimit  = 30 * time.Second
	maxRedirects = 5
)

// A fetcher reads sources.
type fetcher struct {
	max   int64                // bytes of a file or an answer
	admit func(*os.File) error // see Config
	roots *tls.Config          // for tests
}

// read returns what a source has now.
func (f fetcher) read(ctx context.Context, o Origin) (*shelf, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, fmt.Errorf("%w: after %v", fs.ErrTimedOut, readLimit))
	defer cancel()
	r := newReader(o.shown(), o.away())
	err := f.into(ctx, r, o)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &r.shelf, nil
}

func (f fetcher) into(ctx context.Context, r *reader, o Origin) error {
	switch o.Kind {
	case "file":
		text, _, err := fs.ReadRegular(o.Where, f.max+1, f.admit)
		if err == nil {
			err = f.bound(text)
		}
		if err == nil {
			_, err = r.document(text)
		}
		return err
	case "url":
		client := f.client(o)
		defer client.CloseIdleConnections()
		text, err := f.get(ctx, client, o.Where)
		if err == nil {
			_, err = r.document(text)
		}
		return err
	}
	return f.pages(ctx, r, o)
}

// bound refuses what is too much.
func (f fetcher) bound(text []byte) error {
	if int64(len(text)) > f.max {
		return fmt.Errorf("%w: it has more than %d bytes", fs.ErrTooLarge, f.max)
	}
	return nil
}

// pages reads what an API lists, page after page. A cursor that comes again, and one
// more page than there may be, end it.
func (f fetcher) pages(ctx context.Context, r *reader, o Origin) error {
	client := f.client(o)
	defer client.CloseIdleConnections()
	base := strings.TrimSuffix(strings.TrimSuffix(o.Where, "/"), "/v0.1") + "/v0.1/servers?"
	query := url.Values{"version": {"latest"}, "limit": {strconv.Itoa(pageSize)}}
	seen, total := map[string]bool{}, int64(0)
	for range maxPages {
		text, err := f.get(ctx, client, base+query.Encode())
		if err != nil {
			return err
		}
		if total += int64(len(text)); total > maxTotal*f.max {
			return fmt.Errorf("%w: its pages have more than %d bytes", fs.ErrTooLarge, maxTotal*f.max)
		}
		next, err := r.document(text)
		switch {
		case err != nil:
			return err
		case next == "":
			return nil
		case seen[next]:
			return fmt.Errorf("%w: its cursor %.60q comes again: the list has no end", fs.ErrInvalid, next)
		case len(next) > maxText:
			return fmt.Errorf("%w: a cursor of %d bytes", fs.ErrTooLarge, len(next))
		}
		seen[next] = true
		query.Set("cursor", next)
	}
	return fmt.Errorf("%w: more than %d pages", fs.ErrTooLarge, maxPages)
}

// client returns one that reaches the source's own host, which the user named,
// and public addresses. What the environment says of proxies does not count: one
// would look up names by itself.
func (f fetcher) client(o Origin) *http.Client {
	u, _ := url.Parse(o.Where) // which was checked
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && host == u.Hostname() {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		return guard.Public.Dial(ctx, network, address)
	}
	return &http.Client{
		Timeout: answerLimit,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			req.Header.Del("Referer")
			switch {
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			case req.URL.Host == u.Host && req.URL.Scheme == u.Scheme:
				return nil
			case req.URL.Scheme != "https" || req.URL.Hostname() == u.Hostname() && guard.IsLocal(u.Hostname()):
				return fmt.Errorf("%w: redirected to %s://%s", guard.ErrRefused, req.URL.Scheme, req.URL.Host)
			}
			return nil
		},
		Transport: &http.Transport{
			DialContext:            dial,
			TLSClientConfig:        f.roots,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			IdleConnTimeout:        5 * time.Second,
			ForceAttemptHTTP2:      true,
		},
	}
}

// get returns what a URL answers.
func (f fetcher) get(ctx context.Context, client *http.Client, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreached(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: it answers HTTP %d %s", fs.ErrIO, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, f.max+1))
	if err != nil {
		return nil, unreached(err)
	}
	return text, f.bound(text)
}

// unreached returns an error of HTTP without the URL, which may have in it what is
// not to be shown.
func unreached(err error) error {
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("%w: no whole answer within %v", fs.ErrTimedOut, answerLimit)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
