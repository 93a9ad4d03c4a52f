package oauth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hutch/aggd/oauth/oauthtest"
	"hutch/fs"
)

// handled has requests answered without a network, so that time is the test's.
type handled struct{ http.Handler }

func (h handled) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Result(), req.Context().Err()
}

func TestDevice(t *testing.T) {
	pending, slower := "authorization_pending", "slow_down"
	for name, c := range map[string]struct {
		answers []string
		set     map[string]any
		takes   time.Duration
		want    string
	}{
		"at once":       {nil, nil, time.Second, ""},
		"slower":        {[]string{pending, slower, pending}, nil, (1 + 1 + 6 + 6) * time.Second, ""},
		"no interval":   {[]string{pending}, map[string]any{"interval": -1}, 10 * time.Second, ""},
		"denied":        {[]string{pending, "access_denied"}, nil, 2 * time.Second, "access_denied"},
		"expired":       {[]string{"expired_token"}, nil, time.Second, "expired_token"},
		"the code ends": {slices.Repeat([]string{pending}, 100), map[string]any{"expires_in": 5}, 5 * time.Second, "before the code ended"},
		"nobody comes":  {slices.Repeat([]string{pending}, 1000), map[string]any{"expires_in": 1 << 30}, DefaultTimeout, "nobody has logged in"},
		"never asked":   {nil, map[string]any{"interval": 1 << 33}, DefaultTimeout, "nobody has logged in"},
		"bad URL":       {nil, map[string]any{"verification_uri": "javascript:1"}, 0, "verification_uri"},
		"no code":       {nil, map[string]any{"user_code": ""}, 0, "no code"},
		"strange code":  {nil, map[string]any{"user_code": "a\x1b[2J"}, 0, "no code"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := oauthtest.Unserved(t)
				s.Pending = c.answers
				s.Change[oauthtest.Device] = func(m map[string]any) {
					for name, value := range c.set {
						m[name] = value
					}
				}
				client := newClient(t, Config{URL: s.MCP}, new(kept))
				client.net.over = handled{s}
				began := time.Now()
				var told Pending
				err := client.Login(t.Context(), Device, func(p Pending) { told = p })
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
				if c.want != "" {
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%v, want %q", err, c.want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if told.Code != "WDJB-MJHT" || told.URL != s.URL+"/verify" {
					t.Errorf("the person is told %+v", told)
				}
				mustToken(t, client)
			})
		})
	}
	s := oauthtest.New(t)
	s.Change[oauthtest.Metadata] = func(m map[string]any) { delete(m, "device_authorization_endpoint") }
	if err := newClient(t, Config{URL: s.MCP}, new(kept)).Login(t.Context(), Device, nil); !errors.Is(err, fs.ErrUnsupported) {
		t.Errorf("no device flow: %v", err)
	}
	s = oauthtest.New(t)
	s.Change[oauthtest.Metadata] = func(m map[string]any) { delete(m, "authorization_endpoint") }
	if err := login(t, newClient(t, Config{URL: s.MCP}, new(kept)), s); !errors.Is(err, fs.ErrUnsupported) {
		t.Errorf("no login in a browser: %v", err)
	}
}
