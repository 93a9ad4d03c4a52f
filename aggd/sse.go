package aggd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
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
	peer, err := openPeer(ctx, c, def)
	if err != nil {
		return err
	}
	t := &sse{c: c, peer: peer}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	abandon := context.AfterFunc(ctx, t.cancel)
	resp, err := t.peer.stream(t.ctx, http.Header{})
	if err != nil {
		t.cancel()
		peer.close()
		return fmt.Errorf("event stream: %w", err)
	}
	r := newEventReader(resp.Body, t.peer.limit())
	t.endpoint, err = awaitEndpoint(r, resp.Request.URL)
	if err != nil || !abandon() {
		t.cancel()
		resp.Body.Close()
		peer.close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("event stream: %w", err)
	}
	c.transport = t
	t.tasks.Go(func() { peer.watch(t.ctx, c) })
	t.tasks.Go(func() {
		defer resp.Body.Close()
		c.fail(peer.why(t.ctx, fmt.Errorf("connection lost: %w", c.readEvents(r, nil))))
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

// send posts one message; its answer comes by the stream.
func (t *sse) send(ctx context.Context, msg []byte, _ *call) error {
	resp, err := t.peer.post(ctx, t.endpoint, msg, http.Header{})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		return errSession
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return t.peer.failure(resp)
	}
	return nil
}

func (t *sse) begin(string) {}

func (t *sse) close() {
	t.cancel()
	t.tasks.Wait()
	t.peer.close()
}
