package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"hutch/aggd/guard"
	"hutch/aggd/rawjson"
	"hutch/fs"
)

// The limits of what is found out.
const (
	maxDepth  = 16
	maxScopes = 256
	maxNames  = 64 // authorization servers, methods
)

// A protected is what an MCP server says of who gives out tokens for it (RFC 9728).
type protected struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// An authority is what an authorization server says of itself (RFC 8414).
type authority struct {
	Issuer       string   `json:"issuer"`
	Authorize    string   `json:"authorization_endpoint"`
	Token        string   `json:"token_endpoint"`
	Register     string   `json:"registration_endpoint"`
	Device       string   `json:"device_authorization_endpoint"`
	Challenges   []string `json:"code_challenge_methods_supported"`
	TokenMethods []string `json:"token_endpoint_auth_methods_supported"`
	NamesItself  bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// decode reads the object that a stranger answers.
func decode(text []byte, into any) error {
	err := rawjson.Object(text, maxDepth, func([]byte, int, int) error { return nil })
	if err == nil {
		err = rawjson.Unique(text)
	}
	if err != nil {
		return fmt.Errorf("%w: the answer is not of use: %w", fs.ErrInvalid, err)
	}
	err = json.Unmarshal(text, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%w: the answer is not of use: %s is a %s", fs.ErrInvalid, fs.Shorten(wrong.Field), wrong.Value)
	}
	return err
}

// check says why what a server says of itself is not of use to one who asked for
// server.
func (p *protected) check(server string) error {
	if !covers(p.Resource, server) {
		return fmt.Errorf("%w: it speaks for another resource, %q", guard.ErrRefused, fs.Shorten(p.Resource))
	}
	if len(p.Servers) > maxNames || len(p.Scopes) > maxScopes {
		return fmt.Errorf("%w: it names %d authorization servers and %d scopes", fs.ErrTooLarge, len(p.Servers), len(p.Scopes))
	}
	return checkScopes(p.Scopes)
}

// covers tells whether a token for a resource is for the server: they are at one
// origin, and the path of the resource is that of the server or of a folder of it.
func covers(resource, server string) bool {
	r, err := url.Parse(resource)
	s, bad := url.Parse(server)
	if err != nil || bad != nil || r.Host == "" || r.User != nil || r.Fragment != "" || r.RawQuery != "" && r.RawQuery != s.RawQuery {
		return false
	}
	if !strings.EqualFold(origin(r), origin(s)) {
		return false
	}
	above, path := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(s.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}

func checkScopes(scopes []string) error {
	for _, s := range scopes {
		if s == "" || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return fmt.Errorf("%w: %q is no scope", fs.ErrInvalid, fs.Shorten(s))
		}
	}
	return nil
}

// check says why what an authorization server says of itself is not of use to one
// who asked for issuer.
func (a *authority) check(issuer string) error {
	if a.Issuer != issuer {
		return fmt.Errorf("%w: it says that it is another issuer, %q, than %q", guard.ErrRefused, fs.Shorten(a.Issuer), fs.Shorten(issuer))
	}
	for _, u := range []struct {
		name, text string
		needed     bool
	}{
		{"authorization_endpoint", a.Authorize, a.Device == ""}, {"token_endpoint", a.Token, true},
		{"registration_endpoint", a.Register, false}, {"device_authorization_endpoint", a.Device, false},
	} {
		if u.text == "" && !u.needed {
			continue
		}
		if err := CheckURL(u.text); err != nil {
			return fmt.Errorf("%w: %s: %w", fs.ErrInvalid, u.name, err)
		}
	}
	if len(a.Challenges) > maxNames || len(a.TokenMethods) > maxNames {
		return fmt.Errorf("%w: its lists are endless", fs.ErrTooLarge)
	}
	return nil
}

// checkPKCE says why a login in a browser would not be safe.
func (a *authority) checkPKCE() error {
	switch {
	case a.Authorize == "":
		return fmt.Errorf("%w: %s has no login in a browser: write login device", fs.ErrUnsupported, a)
	case !slices.Contains(a.Challenges, "S256"):
		return fmt.Errorf("%w: %s does not say that it has PKCE with S256, without which a code can be stolen", guard.ErrRefused, a)
	}
	return nil
}

// String is what errors call it.
func (a *authority) String() string {
	if a.Issuer == "" {
		return "the authorization server"
	}
	return "authorization server " + fs.Shorten(a.Issuer)
}
