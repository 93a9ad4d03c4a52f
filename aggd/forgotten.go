package aggd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
)

// aboutSession finds the refusals that are about the session: "No valid session ID",
// "Session not found", "Server not initialized".
var aboutSession = regexp.MustCompile(`(?i)session|initiali[sz]ed`)

// notSession are statuses that have reasons of their own, whatever their text says.
var notSession = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests}

// refusesSession reports whether err, the failure of a request, is a refusal that is
// about the session.
func (c *conn) refusesSession(err error) bool {
	if _, ok := c.transport.(*stdio); ok || err == nil || c.stateless.Load() {
		return false
	}
	var status *httpError
	var said *jsonrpc.Error
	switch {
	case errors.Is(err, errSession):
		return true
	case errors.As(err, &status) && status.rpc.Error == nil:
		return status.status < 500 && !slices.Contains(notSession, status.status) && aboutSession.MatchString(status.text)
	case errors.As(err, &said):
		return aboutSession.MatchString(said.Message)
	}
	return false
}

// forgotten decides whether a request failed with err because the server has forgotten
// the session. A tool may have sessions of its own, so unless the status says it, a ping
// has to be refused as well. Then the request was not done and can be made again.
func (c *conn) forgotten(ctx context.Context, err error) bool {
	switch {
	case errors.Is(err, errSession):
		return true
	case !c.refusesSession(err):
		return false
	}
	limit, cancel := context.WithTimeout(ctx, c.up.def.connectTimeout())
	defer cancel()
	return c.refusesSession(c.call(limit, nil, c.up.client, "ping", nil).failure())
}

// checked returns the outcome of a request, with errSession where the server has
// forgotten the session.
func (c *conn) checked(ctx context.Context, o outcome) outcome {
	if err := o.failure(); !errors.Is(err, errSession) && c.forgotten(ctx, err) {
		o.err, o.rpcError = fmt.Errorf("%w: %w", errSession, err), nil
	}
	return o
}

// fetchLive fetches a list, by a new connection where the server has forgotten the
// session.
func (u *upstream) fetchLive(ctx context.Context, l *wire.List) error {
	for range 2 {
		c, err := u.acquire(ctx)
		if err != nil {
			return err
		}
		u.fetch(ctx, c, l)
		u.release()
		u.mu.Lock()
		err = u.lists[l].err
		u.mu.Unlock()
		if !c.forgotten(ctx, err) {
			break
		}
		u.discard(c, errSession)
	}
	return nil
}

// lastAnswers is how long a session that is dead is kept for its other requests: the
// server is about to refuse them, too.
const lastAnswers = 500 * time.Millisecond

// awaitOthers waits until no request is under way, but not for long.
func (c *conn) awaitOthers() {
	for end := time.Now().Add(lastAnswers); c.occupied() && time.Now().Before(end); {
		if !pause(10*time.Millisecond, c.over, nil) {
			return
		}
	}
}
