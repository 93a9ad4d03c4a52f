package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/oauth/oauthtest"
	"hutch/fs"
)

// TestCallback has strangers come to where the browser is to return.
func TestCallback(t *testing.T) {
	s := oauthtest.New(t)
	c := newClient(t, Config{URL: s.MCP}, new(kept))
	var tasks sync.WaitGroup
	var back string
	err := c.Login(t.Context(), Browser, func(p Pending) {
		u, _ := url.Parse(p.URL)
		back = u.Query().Get("redirect_uri")
		tasks.Go(func() {
			for at, want := range map[string]int{
				back: 400, back + "?code=x": 400, back + "?code=x&state=y": 400, back + "?error=access_denied&state=": 400, strings.TrimSuffix(back, callbackPath) + "/": 404,
			} {
				if code, err := s.Visit(t.Context(), at); code != want {
					t.Errorf("%s: HTTP %d, %v", at, code, err)
				}
			}
			resp, err := http.Post(back+"?code=x&state="+u.Query().Get("state"), "text/plain", nil)
			if err != nil || resp.StatusCode != 404 {
				t.Errorf("a POST: %v, %v", resp, err)
			}
			if code, err := s.Visit(t.Context(), p.URL); code != 200 {
				t.Errorf("the browser ends at HTTP %d, %v", code, err)
			}
		})
		if err := c.Login(t.Context(), Browser, nil); !errors.Is(err, fs.ErrBusy) {
			t.Errorf("two logins at once: %v", err)
		}
	})
	tasks.Wait()
	if err != nil {
		t.Error(err)
	}
	if _, err := s.Visit(t.Context(), back); err == nil {
		t.Error("somebody listens when the login is over")
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Login(ctx, Browser, func(Pending) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a login that is given up: %v", err)
	}
	c.cfg.Timeout = 50 * time.Millisecond
	if err := c.Login(t.Context(), Browser, func(Pending) {}); !errors.Is(err, fs.ErrTimedOut) {
		t.Errorf("a login that nobody does: %v", err)
	}
	mustToken(t, c) // which the logins that failed have left
}
