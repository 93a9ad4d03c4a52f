package oauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"hutch/aggd/guard"
	"hutch/aggd/rawjson"
	"hutch/fs"
)

// A grant is what a login has brought: tokens, with all that they are bound to. It is
// kept as JSON.
type grant struct {
	Server   string // the URL that the tokens are for
	Issuer   string // who gave them; "": nobody knows
	TokenURL string // where they are renewed
	Resource string
	Client   identity
	Access   string
	Refresh  string // "": they cannot be renewed
	Renewed  bool   // they are not those of the login itself
	Got      time.Time
	Expires  time.Time
	Due      time.Time // when they are to be renewed; zero: nobody has said
}

const (
	// maxMargin is how long before its end a token is renewed.
	maxMargin = time.Minute
	// minLife is how long a token is not renewed, whatever is said of it.
	minLife = 10 * time.Second
)

// newGrant returns the grant that a login has brought.
func (c *Client) newGrant(f *finding, is identity, t *oauth2.Token) (*grant, error) {
	g := &grant{Server: c.cfg.URL, Issuer: f.Issuer, TokenURL: f.Token, Resource: f.resource, Client: is}
	if c.cfg.ClientID != "" {
		g.Client.Secret = "" // which the config has
	}
	if err := g.set(t); err != nil {
		return nil, fmt.Errorf("%s: %w", &f.authority, err)
	}
	return g, nil
}

// set takes in the tokens that the grant's issuer has given, if they are its.
func (g *grant) set(t *oauth2.Token) error {
	if kind := t.Type(); kind != "Bearer" {
		return fmt.Errorf("%w: it gives a token of the type %q", fs.ErrUnsupported, fs.Shorten(kind))
	}
	for _, text := range []string{t.AccessToken, t.RefreshToken} {
		if len(text) > maxCredential || strings.ContainsFunc(text, isUnprintable) {
			return fmt.Errorf("%w: it gives a token that none can be", fs.ErrInvalid)
		}
	}
	if iss := issuerOf(t.AccessToken); g.Issuer != "" && iss != "" && iss != g.Issuer {
		return fmt.Errorf("%w: it gives a token of another issuer, %q", guard.ErrRefused, fs.Shorten(iss))
	}
	g.Access, g.Refresh, g.Got, g.Expires, g.Due = t.AccessToken, t.RefreshToken, time.Now(), t.Expiry, time.Time{}
	switch life := t.Expiry.Sub(g.Got); {
	case t.Expiry.IsZero():
	case g.Refresh == "":
		g.Due = g.Expires
	default:
		g.Due = g.Got.Add(max(minLife, life-min(maxMargin, life/4)))
	}
	return nil
}

// issuerOf returns the issuer that a token names which is a JWT (RFC 9068), else "".
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || !json.Valid(claims) {
		return ""
	}
	return rawjson.GetString(claims, "iss")
}

// fits says why a grant that was kept is not for what the config says now.
func (g *grant) fits(c *Config) error {
	for _, of := range []struct{ what, was, is string }{
		{"server", g.Server, c.URL}, {"issuer", g.Issuer, c.Issuer}, {"token_url", g.TokenURL, c.TokenURL},
		{"resource", g.Resource, c.Resource}, {"client_id", g.Client.ID, c.ClientID},
	} {
		if of.is != "" && of.was != of.is {
			return fmt.Errorf("%w: the last login was for another %s", ErrLogin, of.what)
		}
	}
	return nil
}
