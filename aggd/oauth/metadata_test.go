package oauth

import (
	"net/url"
	"strings"
	"testing"

	"hutch/aggd/guard"
)

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
				if u, err := url.Parse(place); place != "" && (err != nil || u.Scheme != "https" && !guard.IsLocal(u.Hostname())) {
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
