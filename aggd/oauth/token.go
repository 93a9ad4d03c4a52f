package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"hutch/fs"
)

// Token returns an access token, renewed if it is near its end. The error wraps
// ErrLogin where only a person can help; any other may pass.
func (c *Client) Token(ctx context.Context) (string, error) { return c.token(ctx, "") }

// Renew returns another access token than one that the server has refused.
func (c *Client) Renew(ctx context.Context, refused string) (string, error) {
	return c.token(ctx, refused)
}

func (c *Client) token(ctx context.Context, refused string) (string, error) {
	if err := take(ctx, c.turn); err != nil {
		return "", err
	}
	defer func() { <-c.turn }()
	g, err := c.load()
	switch {
	case err != nil:
		return "", err
	case g == nil:
		return "", ErrLogin
	case g.Access != refused && (g.Due.IsZero() || time.Now().Before(g.Due)):
		return g.Access, nil
	case g.Access == refused && g.Renewed && time.Since(g.Got) < minLife:
		return "", fmt.Errorf("%w: the server refuses the token that %s has just given", ErrLogin, &authority{Issuer: g.Issuer})
	}
	next, err := c.renew(ctx, g)
	switch {
	case err == nil:
		return next.Access, c.keep(next)
	case g.Access != refused && !errors.Is(err, ErrLogin) && time.Now().Before(g.Expires): // it holds for a while yet
		return g.Access, nil
	}
	return "", err
}

// Due returns when the access token wants to be renewed; zero: there is none, or
// nobody knows.
func (c *Client) Due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant == nil {
		return time.Time{}
	}
	return c.grant.Due
}

// Forget forgets the tokens. The authorization server is not told.
func (c *Client) Forget(ctx context.Context) error {
	if err := take(ctx, c.turn); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	c.set(nil)
	return c.cfg.Save("")
}

// load returns the grant, nil if there is none. The caller has the turn.
func (c *Client) load() (*grant, error) {
	c.mu.Lock()
	g, read := c.grant, c.read
	c.mu.Unlock()
	if read {
		return g, nil
	}
	text, err := c.cfg.Load()
	if err != nil {
		return nil, fmt.Errorf("the tokens that were kept: %w", err)
	}
	if text == "" {
		c.set(nil)
		return nil, nil
	}
	g = new(grant)
	if json.Unmarshal([]byte(text), g) != nil || g.Access == "" {
		return nil, fmt.Errorf("%w: what was kept is not of use", ErrLogin)
	}
	if err := g.fits(&c.cfg); err != nil {
		return nil, err
	}
	c.set(g)
	return g, nil
}

func (c *Client) set(g *grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant, c.read = g, true
}

// keep has a grant hold from now on. It does even where it cannot be saved: the one
// before may be of no use any more. The caller has the turn.
func (c *Client) keep(g *grant) error {
	c.set(g)
	text, err := json.Marshal(g)
	if err == nil {
		err = c.cfg.Save(string(text))
	}
	if err != nil {
		return fmt.Errorf("the tokens are there, and cannot be kept: %w", err)
	}
	return nil
}

// renew has the authorization server give other tokens.
func (c *Client) renew(ctx context.Context, g *grant) (*grant, error) {
	if g.Refresh == "" {
		return nil, fmt.Errorf("%w: the token has ended, and cannot be renewed", ErrLogin)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience, fmt.Errorf("%w: no answer within %v", fs.ErrTimedOut, c.patience))
	defer cancel()
	is := g.Client
	if c.cfg.ClientID != "" && c.cfg.Secret != nil {
		var err error
		if is.Secret, err = c.cfg.Secret(ctx); err != nil {
			return nil, err
		}
	}
	// What x/oauth2 calls client credentials is a request of any grant, with the
	// resource; its own renewal leaves that out.
	set := clientcredentials.Config{
		ClientID: is.ID, ClientSecret: is.Secret, TokenURL: g.TokenURL, AuthStyle: is.Style,
		EndpointParams: url.Values{"grant_type": {grantRefresh}, "refresh_token": {g.Refresh}, "resource": {g.Resource}},
	}
	t, err := set.Token(context.WithValue(ctx, oauth2.HTTPClient, c.client(ctx)))
	if err != nil {
		return nil, c.refusal(ctx, &authority{Issuer: g.Issuer}, err)
	}
	next := *g
	next.Renewed = true
	if err := next.set(t); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLogin, &authority{Issuer: g.Issuer}, err)
	}
	return &next, nil
}

// passing are the codes of errors that may go by themselves.
var passing = []string{"server_error", "slow_down", "temporarily_unavailable"}

// refusal says why an authorization server gave no token. Its own words are
// shortened, and its body, which may have a token in it, is left out.
func (c *Client) refusal(ctx context.Context, a *authority, err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return fmt.Errorf("%s: %w", a, c.unreached(ctx, err))
	}
	status := refused.Response.StatusCode
	why := said(refused.ErrorCode, refused.ErrorDescription, fmt.Sprintf("HTTP %d", status))
	if refused.ErrorCode == "" || status >= 500 || slices.Contains(passing, refused.ErrorCode) {
		return fmt.Errorf("%w: %s answers %s", fs.ErrIO, a, why)
	}
	return fmt.Errorf("%w: %s refuses: %s", ErrLogin, a, why)
}
