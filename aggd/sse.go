package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A sse carries messages by HTTP with server-sent events (revision 2024-11-05): one
// stream of events brings all that the server says, and its first event names
// where to post.
type sse struct {
	c        *conn
	peer     *httpPeer
	cancel   context.CancelFunc
	endpoint string
	tasks    sync.WaitGroup
	ctx      context.Context
}

// openSSE opens the stream and waits for the endpoint.
func openSSE(ctx context.Context, c *conn, def definition) error {
	t := &sse{c: c, peer: newHTTPPeer(def)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	abandon := context.AfterFunc(ctx, t.cancel)
	resp, err := t.peer.do(t.ctx, http.MethodGet, def.URL, nil, http.Header{"Accept": {eventStream}})
	if err == nil && (resp.StatusCode != http.StatusOK || contentType(resp) != eventStream) {
		err = failure(resp)
		resp.Body.Close()
	}
	if err != nil {
		t.cancel()
		return fmt.Errorf("event stream: %w", err)
	}
	r := newEventReader(resp.Body, c.up.agg.cfg.MaxResult)
	t.endpoint, err = awaitEndpoint(r, resp.Request.URL)
	if err != nil || !abandon() {
		t.cancel()
		resp.Body.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("event stream: %w", err)
	}
	c.transport = t
	t.tasks.Go(func() {
		defer resp.Body.Close()
		t.read(r)
	})
	return nil
}

// awaitEndpoint returns the URL to post to, which must be where the stream is.
func awaitEndpoint(r *eventReader, base *url.URL) (string, error) {
	for {
		e, err := r.next()
		if err != nil {
			return "", fmt.Errorf("no endpoint: %w", plain(err))
		}
		if e.name != "endpoint" {
			continue
		}
		ref, err := url.Parse(string(bytes.TrimSpace(e.data)))
		if err != nil {
			return "", errors.New("the endpoint is not a url")
		}
		endpoint := base.ResolveReference(ref)
		if endpoint.Host != base.Host || endpoint.Scheme != base.Scheme {
			return "", fmt.Errorf("the endpoint is on another host, %s", endpoint.Host)
		}
		return endpoint.String(), nil
	}
}

func (t *sse) read(r *eventReader) {
	for {
		e, err := r.next()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			t.c.tooLong(long, nil)
		case err != nil:
			t.c.fail(fmt.Errorf("connection lost: %w", plain(err)))
			return
		case len(e.data) > 0 && (e.name == "" || e.name == "message"):
			t.c.receive(oneLine(e.data), nil)
		}
	}
}

// send posts one message; its answer comes by the stream.
func (t *sse) send(ctx context.Context, msg []byte, _ *call) error {
	header := http.Header{"Content-Type": {"application/json"}}
	resp, err := t.peer.do(ctx, http.MethodPost, t.endpoint, bytes.NewReader(msg), header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return errSession
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return failure(resp)
	}
	return nil
}

func (t *sse) begin(string) {}

func (t *sse) close() {
	t.cancel()
	t.tasks.Wait()
	t.peer.client.CloseIdleConnections()
}

// oneLine returns the data of an event on one line.
func oneLine(data []byte) []byte { return bytes.TrimSpace(rawjson.Line(data)) }
