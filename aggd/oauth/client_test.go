package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

func TestPlaces(t *testing.T) {
	for server, want := range map[string]string{
		"https://a.example":          "https://a.example/.well-known/oauth-protected-resource",
		"https://a.example:8443/":    "https://a.example:8443/.well-known/oauth-protected-resource",
		"https://a.example/b/mcp?x=": "https://a.example/.well-known/oauth-protected-resource/b/mcp https://a.example/.well-known/oauth-protected-resource",
	} {
		if got := strings.Join(protectedPlaces(server), " "); got != want {
			t.Errorf("%s: %s", server, got)
		}
	}
	for issuer, want := range map[string]string{
		"https://a.example/": "https://a.example/.well-known/oauth-authorization-server https://a.example/.well-known/openid-configuration",
		"https://a.example/b": "https://a.example/.well-known/oauth-authorization-server/b https://a.example/.well-known/openid-configuration/b " +
			"https://a.example/b/.well-known/openid-configuration",
		"https://a.example/?b": "", "http://a.example": "", "": "",
	} {
		places, err := authorityPlaces(issuer)
		if got := strings.Join(places, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", issuer, got, err)
		}
	}
}

func TestCovers(t *testing.T) {
	const server = "https://a.example/b/mcp"
	for resource, want := range map[string]bool{
		server: true, server + "/": true, "https://a.example": true, "https://a.example/": true, "https://a.example/b": true, "https://A.example/b": true,
		"": false, "/b/mcp": false, "https://a.example/b/mc": false, "https://a.example/b/mcp/c": false, "https://a.example/c": false, "http://a.example": false,
		"https://b.example/b/mcp": false, "https://a.example:444": false, "https://a.example.b.example": false, "https://x@a.example": false,
		"https://a.example/b/mcp?x": false, "https://a.example/#b": false,
	} {
		if covers(resource, server) != want {
			t.Errorf("%q: %t", resource, !want)
		}
	}
}

// TestLies has each answer be a lie, and the login fail with what is wrong.
func TestLies(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("somebody else was asked") }))
	t.Cleanup(elsewhere.Close)
	set := func(path, name string, value any) func(*oauthtest.Server) {
		return func(s *oauthtest.Server) { s.Change[path] = func(m map[string]any) { m[name] = value } }
	}
	handle := func(path string, h http.HandlerFunc) func(*oauthtest.Server) {
		return func(s *oauthtest.Server) { s.Handle[path] = h }
	}
	away := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, elsewhere.URL+"/x", code) }
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"issuer":"`)
		for chunk := strings.Repeat("x", 1<<20); ; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
	slow := func(w http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body) // or the end of the connection is not seen
		io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		<-req.Context().Done()
	}
	for name, c := range map[string]struct {
		lie  func(*oauthtest.Server)
		want string
	}{
		"another issuer":       {set(oauthtest.Metadata, "issuer", "https://evil.example"), `another issuer, "https://evil.example"`},
		"issuer with a slash":  {func(s *oauthtest.Server) { set(oauthtest.Metadata, "issuer", s.URL+"/")(s) }, "another issuer"},
		"another resource":     {set(oauthtest.Protected, "resource", "https://evil.example/mcp"), "another resource"},
		"no resource":          {set(oauthtest.Protected, "resource", ""), "another resource"},
		"no authority":         {set(oauthtest.Protected, "authorization_servers", []string{}), "names no authorization server"},
		"private authority":    {set(oauthtest.Protected, "authorization_servers", []string{"https://10.0.0.1"}), "not a public address"},
		"metadata service":     {set(oauthtest.Protected, "authorization_servers", []string{"https://169.254.169.254"}), "not a public address"},
		"plain authority":      {set(oauthtest.Protected, "authorization_servers", []string{"http://evil.example"}), "not https"},
		"plain token endpoint": {set(oauthtest.Metadata, "token_endpoint", "http://evil.example/token"), "not https"},
		"script to open":       {set(oauthtest.Metadata, "authorization_endpoint", "javascript:alert(1)"), "authorization_endpoint"},
		"no PKCE":              {set(oauthtest.Metadata, "code_challenge_methods_supported", nil), "PKCE"},
		"plain PKCE":           {set(oauthtest.Metadata, "code_challenge_methods_supported", []string{"plain"}), "PKCE"},
		"nobody registers":     {set(oauthtest.Metadata, "registration_endpoint", nil), "remote_auth_config.client_id"},
		"a client without id":  {set(oauthtest.Register, "client_id", nil), "no client_id"},
		"twice":                {handle(oauthtest.Metadata, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"issuer":"a","issuer":"b"}`) }), "issuer"},
		"a type":               {set(oauthtest.Metadata, "token_endpoint", 7), "token_endpoint is a number"},
		"scopes":               {set(oauthtest.Protected, "scopes_supported", []string{"a b"}), "no scope"},
		"nothing there":        {func(s *oauthtest.Server) { s.Challenge = `Bearer resource_metadata="` + s.URL + `/none"` }, "nothing is at"},
		"metadata elsewhere":   {func(s *oauthtest.Server) { s.Challenge = `Bearer resource_metadata="http://evil.example/"` }, "not https"},
		"metadata inside":      {func(s *oauthtest.Server) { s.Challenge = `Bearer resource_metadata="https://192.168.0.1/"` }, "not a public address"},
		"metadata away":        {handle(oauthtest.Metadata, away(http.StatusFound)), "redirected to another place"},
		"resource away":        {handle(oauthtest.Protected, away(http.StatusTemporaryRedirect)), "redirected to another place"},
		"code away":            {handle(oauthtest.Token, away(http.StatusTemporaryRedirect)), "redirected to another place"},
		"code becomes a GET":   {handle(oauthtest.Token, away(http.StatusFound)), "redirected in a way"},
		"registration away":    {handle(oauthtest.Register, away(http.StatusPermanentRedirect)), "redirected to another place"},
		"in circles":           {handle(oauthtest.Metadata, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, oauthtest.Metadata, 302) }), "more than 5 redirects"},
		"endless metadata":     {handle(oauthtest.Metadata, endless), "more than 256 KiB"},
		"endless resource":     {handle(oauthtest.Protected, endless), "more than 256 KiB"},
		"endless registration": {handle(oauthtest.Register, endless), "more than 256 KiB"},
		"endless token":        {handle(oauthtest.Token, endless), "more than 256 KiB"},
		"slow metadata":        {handle(oauthtest.Metadata, slow), "no whole answer"},
		"slow token":           {handle(oauthtest.Token, slow), "no whole answer"},
		"broken":               {handle(oauthtest.Metadata, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "HTTP 500"},
		"another's token":      {func(s *oauthtest.Server) { s.JWT = "https://evil.example" }, `another issuer, "https://evil.example"`},
		"a MAC token":          {set(oauthtest.Token, "token_type", "mac"), `type "MAC"`},
		"a token of lines":     {set(oauthtest.Token, "access_token", "a\r\nX: y"), "none can be"},
		"a huge token":         {set(oauthtest.Token, "access_token", strings.Repeat("x", 20<<10)), "none can be"},
		"no token":             {set(oauthtest.Token, "access_token", ""), "access_token"},
		"returned by another":  {set(oauthtest.Authorize, "iss", "https://evil.example"), `another issuer, "https://evil.example"`},
		"returned by nobody":   {func(s *oauthtest.Server) { s.Change[oauthtest.Authorize] = func(m map[string]any) { delete(m, "iss") } }, "from which issuer"},
		"the person says no":   {set(oauthtest.Authorize, "error", "access_denied"), "access_denied"},
		"no code":              {set(oauthtest.Authorize, "code", ""), "without a code"},
		"a code of another's":  {set(oauthtest.Authorize, "code", "stolen"), "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t)
			c.lie(s)
			k := new(kept)
			client := newClient(t, Config{URL: s.MCP, Timeout: 20 * time.Second}, k)
			if strings.HasPrefix(name, "slow") {
				client.patience = 300 * time.Millisecond
			}
			err := login(t, client, s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if k.text != "" {
				t.Errorf("something was kept: %s", k.text)
			}
			if token, err := client.Token(t.Context()); err == nil {
				t.Errorf("there is a token: %q", token)
			}
		})
	}
}

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

func TestRenew(t *testing.T) {
	s := oauthtest.New(t)
	k := new(kept)
	c := newClient(t, Config{URL: s.MCP}, k)
	if err := login(t, c, s); err != nil {
		t.Fatal(err)
	}
	first := mustToken(t, c)
	age(c, time.Hour-30*time.Second)
	var all sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		all.Go(func() { tokens[i], _ = c.Token(t.Context()) })
	}
	all.Wait()
	second := tokens[0]
	if second == first || len(slices.Compact(tokens)) != 1 || try(t, s, second) != http.StatusNoContent {
		t.Errorf("the first token is %q, then %q", first, tokens)
	}
	s.Revoke()
	if _, err := c.Renew(t.Context(), second); !errors.Is(err, ErrLogin) {
		t.Errorf("a token that is refused at once: %v", err)
	}
	age(c, time.Minute)
	for range 3 { // of those who were refused at the same time
		third, err := c.Renew(t.Context(), second)
		if err != nil || third == second || try(t, s, third) != http.StatusNoContent {
			t.Fatalf("renewed: %q, %v", third, err)
		}
	}
	if n := s.Asked(oauthtest.Token); n != 3 {
		t.Errorf("the authorization server was asked for tokens %d times, want 3", n)
	}

	age(c, time.Hour-30*time.Second) // which holds for a while
	was := mustToken(t, newClient(t, Config{URL: s.MCP}, k))
	s.Handle[oauthtest.Token] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	if got := mustToken(t, c); got != was {
		t.Errorf("the token that holds is %q, not %q", got, was)
	}
	age(c, time.Minute)
	if token, err := c.Token(t.Context()); err == nil || errors.Is(err, ErrLogin) {
		t.Errorf("the authorization server is ill: %q, %v", token, err)
	}
	for code, passing := range map[string]bool{"invalid_grant": false, "unauthorized_client": false, "temporarily_unavailable": true, "server_error": true} {
		s.Handle[oauthtest.Token] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":%q,"access_token":"leak"}`, code)
		}
		_, err := c.Token(t.Context())
		if err == nil || errors.Is(err, ErrLogin) == passing || !strings.Contains(err.Error(), code) || strings.Contains(err.Error(), "leak") {
			t.Errorf("%s: %v", code, err)
		}
	}
	delete(s.Handle, oauthtest.Token)
	k.err = fs.ErrNoSpace
	if _, err := c.Token(t.Context()); !errors.Is(err, fs.ErrNoSpace) {
		t.Errorf("a disk that is full: %v", err)
	}
	if code := try(t, s, mustToken(t, c)); code != http.StatusNoContent {
		t.Errorf("what could not be saved is worth HTTP %d", code)
	}
	k.err = nil
	s.JWT = "https://evil.example"
	age(c, time.Hour)
	if token, err := c.Token(t.Context()); !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), "another issuer") {
		t.Errorf("renewed by another issuer: %q, %v", token, err)
	}
}

// TestNoRenewal has a token end that nobody can renew.
func TestNoRenewal(t *testing.T) {
	s := oauthtest.New(t)
	s.Change[oauthtest.Token] = func(m map[string]any) { delete(m, "refresh_token") }
	c := newClient(t, Config{URL: s.MCP}, new(kept))
	if err := login(t, c, s); err != nil {
		t.Fatal(err)
	}
	age(c, time.Hour-30*time.Second)
	mustToken(t, c)
	age(c, time.Minute)
	if token, err := c.Token(t.Context()); !errors.Is(err, ErrLogin) {
		t.Errorf("it has ended: %q, %v", token, err)
	}
}

// TestOtherGrant has what was kept not be for what the config says now.
func TestOtherGrant(t *testing.T) {
	s, other := oauthtest.New(t), oauthtest.New(t)
	k := new(kept)
	if err := login(t, newClient(t, Config{URL: s.MCP}, k), s); err != nil {
		t.Fatal(err)
	}
	for what, cfg := range map[string]Config{
		"server": {URL: other.MCP}, "issuer": {URL: s.MCP, Issuer: other.URL}, "token_url": {URL: s.MCP, TokenURL: other.URL + oauthtest.Token},
		"resource": {URL: s.MCP, Resource: other.MCP}, "client_id": {URL: s.MCP, ClientID: "another"},
	} {
		if token, err := newClient(t, cfg, k).Token(t.Context()); token != "" || !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %q, %v", what, token, err)
		}
	}
	for _, text := range []string{"{", "{}", "null", `{"Access":7}`} {
		if token, err := newClient(t, Config{URL: s.MCP}, &kept{text: text}).Token(t.Context()); token != "" || !errors.Is(err, ErrLogin) {
			t.Errorf("%s: %q, %v", text, token, err)
		}
	}
	if n := other.Asked(oauthtest.Token); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

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

func TestChallenges(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer`: "map[]", `bearer realm="a b", scope=x`: "map[realm:a b scope:x]", `Basic realm="x, Bearer y", Bearer error="a\"b\\"`: `map[error:a"b\]`,
		`Negotiate YII/a+b==, Bearer a=b`: "map[a:b]", `Bearer A=1, a=2`: "map[a:1]", `Bearer a = "1" , b= 2,`: "map[a:1 b:2]", ` , Bearer a=1`: "map[a:1]",
		`Basic a=1`: "map[]", ``: "map[]", `Bearer a="`: "map[]", `Bearer a=,b=2`: "map[b:2]", `Bearer a="x`: "map[]", `=`: "map[]", "Bearer \x00, Bearer b=1": "map[]",
	} {
		if got := fmt.Sprint(bearer([]string{header}).params); got != want {
			t.Errorf("%s: %s, want %s", header, got, want)
		}
	}
}

func FuzzChallenges(f *testing.F) {
	f.Add(`Basic realm="x", Bearer resource_metadata="https://a.example", scope="a b"`)
	f.Add(`Negotiate YII/a+b==, Bearer a="\`)
	f.Fuzz(func(t *testing.T, header string) {
		for _, c := range parseChallenges(header) {
			if c.scheme == "" || c.scheme != strings.ToLower(c.scheme) {
				t.Errorf("the scheme %q", c.scheme)
			}
			for name := range c.params {
				if name == "" || strings.ContainsAny(name, " \t,=\"\\") {
					t.Errorf("the parameter %q", name)
				}
			}
		}
	})
}

// FuzzMetadata: what passes the checks is safe to use.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"resource":"https://a.example/mcp","authorization_servers":["https://b.example"],"scopes_supported":["x"]}`))
	f.Add([]byte(`{"issuer":"https://b.example","authorization_endpoint":"https://b.example/a","token_endpoint":"https://b.example/t","code_challenge_methods_supported":["S256"]}`))
	f.Add([]byte(`{"client_id":"x","client_secret":"y","token_endpoint_auth_method":"client_secret_post"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		const server, issuer = "https://a.example/mcp", "https://b.example"
		var p protected
		if decode(text, &p) == nil && p.check(server) == nil {
			if u, err := url.Parse(p.Resource); err != nil || !strings.EqualFold(u.Host, "a.example") || u.Scheme != "https" {
				t.Errorf("resource %q", p.Resource)
			}
		}
		var a authority
		if decode(text, &a) == nil && a.check(issuer) == nil {
			for _, place := range []string{a.Authorize, a.Token, a.Register, a.Device} {
				if u, err := url.Parse(place); place != "" && (err != nil || u.Scheme != "https" && !isLoopback(u.Hostname())) {
					t.Errorf("endpoint %q", place)
				}
			}
		}
		if is, err := registered(text); err == nil && is.ID == "" {
			t.Error("a client without id")
		}
		issuerOf(string(text))
	})
}
