package oauth

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hutch/aggd/oauth/oauthtest"
)

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
