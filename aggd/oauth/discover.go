package oauth

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"hutch/fs"
)

// A finding is what a login has to know.
type finding struct {
	authority
	resource string
	scopes   []string
}

// discover finds out what the config does not say. The specification has the order.
func (c *Client) discover(ctx context.Context, client *http.Client) (*finding, error) {
	f := &finding{resource: c.cfg.resource(), scopes: c.cfg.Scopes}
	if c.cfg.AuthorizeURL != "" && c.cfg.TokenURL != "" { // a person has said it all
		f.authority = authority{Issuer: c.cfg.Issuer, Challenges: []string{"S256"}}
		f.Authorize, f.Token = c.cfg.AuthorizeURL, c.cfg.TokenURL
		return f, nil
	}
	said, err := c.challenged(ctx, client)
	if err != nil {
		return nil, err
	}
	p, err := c.protected(ctx, client, said)
	if err != nil {
		return nil, err
	}
	if p != nil && c.cfg.Resource == "" {
		f.resource = p.Resource
	}
	if f.scopes == nil {
		f.scopes = strings.Fields(said.params["scope"])
	}
	if len(f.scopes) == 0 && p != nil {
		f.scopes = p.Scopes
	}
	if len(f.scopes) > maxScopes {
		return nil, fmt.Errorf("%w: the server wants %d scopes", fs.ErrTooLarge, len(f.scopes))
	}
	if err := checkScopes(f.scopes); err != nil {
		return nil, err
	}
	if err := c.authority(ctx, client, p, &f.authority); err != nil {
		return nil, err
	}
	if c.cfg.AuthorizeURL != "" {
		f.Authorize = c.cfg.AuthorizeURL
	}
	if c.cfg.TokenURL != "" {
		f.Token = c.cfg.TokenURL
	}
	return f, nil
}

// hello is a request by which a server that wants a token says so.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hutch","version":"1"}}}`

// challenged asks the server without a token, and returns what it says of that.
func (c *Client) challenged(ctx context.Context, client *http.Client) (challenge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.URL, strings.NewReader(hello))
	if err != nil {
		return challenge{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		return challenge{}, fmt.Errorf("the server: %w", c.unreached(ctx, err))
	}
	resp.Body.Close()
	return bearer(resp.Header.Values("WWW-Authenticate")), nil
}

// protected returns what the server says of who gives out its tokens; nil: it is of
// the time before servers said that.
func (c *Client) protected(ctx context.Context, client *http.Client, said challenge) (*protected, error) {
	places := []string{said.params["resource_metadata"]}
	if places[0] == "" {
		places = protectedPlaces(c.cfg.URL)
	} else if err := CheckURL(places[0]); err != nil {
		return nil, fmt.Errorf("%w: resource_metadata: %w", fs.ErrInvalid, err)
	}
	for _, place := range places {
		p := new(protected)
		switch found, err := c.get(ctx, client, place, p); {
		case err != nil:
			return nil, err
		case found:
			if err := p.check(c.cfg.URL); err != nil {
				return nil, fmt.Errorf("%s: %w", fs.Shorten(place), err)
			}
			return p, nil
		}
	}
	if said.params["resource_metadata"] != "" {
		return nil, fmt.Errorf("%w: nothing is at %s, which the server names", fs.ErrNotExist, fs.Shorten(places[0]))
	}
	return nil, nil
}

// protectedPlaces returns where a server says who gives out its tokens.
func protectedPlaces(server string) []string {
	const name = "/.well-known/oauth-protected-resource"
	u, _ := url.Parse(server) // which was checked
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{origin(u) + name}
	}
	return []string{origin(u) + name + path, origin(u) + name}
}

// authority finds out about the authorization server: the one that is said, the
// first that the server names, or else the server itself, as it was in 2025-03-26.
func (c *Client) authority(ctx context.Context, client *http.Client, p *protected, into *authority) error {
	issuer, older := c.cfg.Issuer, false
	switch {
	case issuer != "":
	case p != nil && len(p.Servers) == 0:
		return fmt.Errorf("%w: the server names no authorization server: say which in remote_auth_config.issuer", fs.ErrInvalid)
	case p != nil:
		issuer = p.Servers[0]
	default:
		u, _ := url.Parse(c.cfg.URL)
		issuer, older = origin(u), true
	}
	places, err := authorityPlaces(issuer)
	if err != nil {
		return err
	}
	for _, place := range places {
		var a authority
		found, err := c.get(ctx, client, place, &a)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if older && a.Issuer == issuer+"/" { // which nobody has spelled yet
			issuer = a.Issuer
		}
		*into = a
		if err := a.check(issuer); err != nil {
			return fmt.Errorf("%s: %w", fs.Shorten(place), err)
		}
		return nil
	}
	if older {
		return fmt.Errorf("%w: the server says nothing of how to log in", fs.ErrNotExist)
	}
	return fmt.Errorf("%w: authorization server %s says nothing of itself where it should", fs.ErrNotExist, fs.Shorten(issuer))
}

// authorityPlaces returns where an authorization server says what it has.
func authorityPlaces(issuer string) ([]string, error) {
	const ours, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	if err := CheckURL(issuer); err != nil {
		return nil, fmt.Errorf("%w: authorization server: %w", fs.ErrInvalid, err)
	}
	u, _ := url.Parse(issuer)
	if u.RawQuery != "" {
		return nil, fmt.Errorf("%w: authorization server %q has a ? in it", fs.ErrInvalid, fs.Shorten(issuer))
	}
	base, path := origin(u), strings.TrimSuffix(u.EscapedPath(), "/")
	if path == "" {
		return []string{base + ours, base + openID}, nil
	}
	return []string{base + ours + path, base + openID + path, base + path + openID}, nil
}

// get reads what stands at a URL; found is false where that is nothing.
func (c *Client) get(ctx context.Context, client *http.Client, place string, into any) (found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "application/json")
	resp, text, err := c.do(client, req)
	switch {
	case err != nil:
		return false, fmt.Errorf("%s: %w", fs.Shorten(place), err)
	case resp.StatusCode >= 400 && resp.StatusCode < 500, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"): // a page for people
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%w: %s answers HTTP %d", fs.ErrIO, fs.Shorten(place), resp.StatusCode)
	}
	if err := decode(text, into); err != nil {
		return false, fmt.Errorf("%s: %w", fs.Shorten(place), err)
	}
	return true, nil
}

// do returns what a request is answered, with the text of it.
func (c *Client) do(client *http.Client, req *http.Request) (*http.Response, []byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, c.unreached(req.Context(), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, bytes.TrimSpace(text), err
}
