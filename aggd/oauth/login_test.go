package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/oauth/oauthtest"
	"hutch/fs"
)

// A kept is what a client has saved.
type kept struct {
	mu   sync.Mutex // guards what follows
	text string
	err  error // of saving
}

func (k *kept) load() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text, nil
}

func (k *kept) save(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.text = text
	}
	return k.err
}

func newClient(t *testing.T, cfg Config, k *kept) *Client {
	t.Helper()
	cfg.Load, cfg.Save = k.load, k.save
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// login logs in as a person with a browser does.
func login(t *testing.T, c *Client, s *oauthtest.Server) error {
	t.Helper()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	return c.Login(t.Context(), Browser, func(p Pending) {
		tasks.Go(func() { s.Visit(t.Context(), p.URL) })
	})
}

// try asks the MCP server with a token.
func try(t *testing.T, s *oauthtest.Server, token string) int {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.MCP, nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func mustToken(t *testing.T, c *Client) string {
	t.Helper()
	token, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// age has the token of a client be old.
func age(c *Client, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := *c.grant
	g.Got, g.Expires, g.Due = g.Got.Add(-by), g.Expires.Add(-by), g.Due.Add(-by)
	c.grant = &g
}

func TestLogin(t *testing.T) {
	s := oauthtest.New(t)
	k := new(kept)
	c := newClient(t, Config{URL: s.MCP}, k)
	if token, err := c.Token(t.Context()); token != "" || !errors.Is(err, ErrLogin) {
		t.Fatalf("before the login: %q, %v", token, err)
	}
	if err := login(t, c, s); err != nil {
		t.Fatal(err)
	}
	token := mustToken(t, c)
	if code := try(t, s, token); code != http.StatusNoContent {
		t.Errorf("the token is worth HTTP %d", code)
	}
	if got := s.Asking().Get("scope"); got != "notes:read notes:write" {
		t.Errorf("asked for the scopes %q", got)
	}
	again := newClient(t, Config{URL: s.MCP}, k) // as after a restart
	if got := mustToken(t, again); got != token {
		t.Errorf("after a restart the token is %q, not %q", got, token)
	}
	if err := again.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Token(t.Context()); !errors.Is(err, ErrLogin) || k.text != "" {
		t.Errorf("forgotten: %v, %q is kept", err, k.text)
	}
}

// TestConfig has a person say what else is found out.
func TestConfig(t *testing.T) {
	s := oauthtest.New(t)
	s.Challenge = `Basic realm="x", Bearer scope="a b"` // and where the metadata is, is known
	l, err := listen("127.0.0.1", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	l.close()
	u, _ := url.Parse(l.URL)
	var port int
	fmt.Sscan(u.Port(), &port)
	s.Client("ours", fmt.Sprintf("http://localhost:%d/callback", port))
	s.Secret = "a secret"
	for name, cfg := range map[string]Config{
		"client":    {ScopeParam: "user_scope", Params: map[string]string{"prompt": "consent"}},
		"issuer":    {Issuer: s.URL, Scopes: []string{"c"}},
		"endpoints": {AuthorizeURL: s.URL + oauthtest.Authorize, TokenURL: s.URL + oauthtest.Token, Issuer: s.URL, Resource: s.MCP},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.URL, cfg.ClientID, cfg.CallbackPort = s.MCP, "ours", port
			cfg.Secret = func(context.Context) (string, error) { return s.Secret, nil }
			k := new(kept)
			c := newClient(t, cfg, k)
			before := len(s.Paths())
			if err := login(t, c, s); err != nil {
				t.Fatal(err)
			}
			age(c, time.Hour)
			if code := try(t, s, mustToken(t, c)); code != http.StatusNoContent {
				t.Errorf("the token is worth HTTP %d", code)
			}
			if strings.Contains(k.text, s.Secret) {
				t.Errorf("the secret was kept: %s", k.text)
			}
			asked := s.Asking()
			switch name {
			case "client":
				if asked.Get("user_scope") != "a b" || asked.Has("scope") || asked.Get("prompt") != "consent" {
					t.Errorf("asked %v", asked)
				}
			case "issuer":
				if asked.Get("scope") != "c" {
					t.Errorf("asked %v", asked)
				}
			case "endpoints":
				if paths := s.Paths()[before:]; slices.Contains(paths, oauthtest.Metadata) {
					t.Errorf("asked for what was said: %q", paths)
				}
			}
		})
	}
	for name, bad := range map[string]Config{
		"plain":    {URL: "http://example.com/mcp"},
		"issuer":   {URL: s.MCP, Issuer: "http://example.com"},
		"login":    {URL: "https://me:secret@example.com/mcp"},
		"scheme":   {URL: s.MCP, AuthorizeURL: "javascript:alert(1)"},
		"ours":     {URL: s.MCP, Params: map[string]string{"state": "x"}},
		"fragment": {URL: s.MCP, TokenURL: "https://example.com/token#x"},
		"scopes":   {URL: s.MCP, ScopeParam: "redirect_uri"},
	} {
		if _, err := New(bad); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOlder logs in to a server of the revision 2025-03-26, which is its own
// authorization server and does not say so.
func TestOlder(t *testing.T) {
	for _, slash := range []string{"", "/"} {
		s := oauthtest.New(t)
		s.Challenge = "Bearer"
		s.Handle[oauthtest.Protected] = http.NotFound
		s.Change[oauthtest.Metadata] = func(m map[string]any) { m["issuer"] = s.URL + slash }
		s.Change[oauthtest.Authorize] = func(m map[string]any) { m["iss"] = s.URL + slash }
		c := newClient(t, Config{URL: s.MCP}, new(kept))
		if err := login(t, c, s); err != nil {
			t.Fatal(err)
		}
		if code := try(t, s, mustToken(t, c)); code != http.StatusNoContent {
			t.Errorf("the token is worth HTTP %d", code)
		}
	}
}
