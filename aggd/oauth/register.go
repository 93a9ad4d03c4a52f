package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"hutch/aggd/rawjson"
	"hutch/fs"
)

// maxCredential is how many bytes an id, a secret or a token has at most.
const maxCredential = 16 << 10

// An identity is what hutch is to an authorization server.
type identity struct {
	ID     string
	Secret string // "": none
	Style  oauth2.AuthStyle
}

// The grants that are asked for.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	grantDevice  = "urn:ietf:params:oauth:grant-type:device_code"
)

// identity returns what hutch is to the authorization server: what the config says,
// or what it registers as, with the place that a browser is to return to; "": there
// is none.
func (c *Client) identity(ctx context.Context, client *http.Client, f *finding, back string) (identity, error) {
	if c.cfg.ClientID != "" {
		is := identity{ID: c.cfg.ClientID}
		if c.cfg.Secret == nil {
			is.Style = oauth2.AuthStyleInParams
			return is, nil
		}
		var err error
		is.Secret, err = c.cfg.Secret(ctx)
		is.Style = secretStyle(f.TokenMethods)
		return is, err
	}
	if f.Register == "" {
		return identity{}, fmt.Errorf("%w: %s lets nobody register: register hutch there, and say remote_auth_config.client_id", fs.ErrUnsupported, &f.authority)
	}
	return c.register(ctx, client, f, back)
}

// secretStyle returns how a client shows its secret to a token endpoint: as that
// says, or as RFC 8414 has it where that says nothing.
func secretStyle(methods []string) oauth2.AuthStyle {
	if slices.Contains(methods, "client_secret_post") && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// register registers hutch as a client (RFC 7591). That is done anew for each login,
// since a client is for the port that a browser returns to.
func (c *Client) register(ctx context.Context, client *http.Client, f *finding, back string) (identity, error) {
	wish := map[string]any{"client_name": "hutch", "application_type": "native", "token_endpoint_auth_method": "none"}
	if len(f.scopes) > 0 {
		wish["scope"] = strings.Join(f.scopes, " ")
	}
	if back != "" {
		wish["redirect_uris"] = []string{back}
		wish["response_types"] = []string{"code"}
		wish["grant_types"] = []string{grantCode, grantRefresh}
	} else {
		wish["redirect_uris"] = []string{}
		wish["response_types"] = []string{}
		wish["grant_types"] = []string{grantDevice, grantRefresh}
	}
	body, err := json.Marshal(wish)
	if err != nil {
		return identity{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Register, bytes.NewReader(body))
	if err != nil {
		return identity{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, text, err := c.do(client, req)
	if err != nil {
		return identity{}, fmt.Errorf("register with %s: %w", &f.authority, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		why := fmt.Sprintf("HTTP %d", resp.StatusCode)
		if json.Valid(text) {
			why = said(rawjson.GetString(text, "error"), rawjson.GetString(text, "error_description"), why)
		}
		return identity{}, fmt.Errorf("%w: %s does not register hutch: %s", fs.ErrPermission, &f.authority, why)
	}
	is, err := registered(text)
	if err != nil {
		return identity{}, fmt.Errorf("register with %s: %w", &f.authority, err)
	}
	return is, nil
}

// registered reads what a registration is answered.
func registered(text []byte) (identity, error) {
	var is struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	if err := decode(text, &is); err != nil {
		return identity{}, err
	}
	if is.ID == "" || len(is.ID) > maxCredential || len(is.Secret) > maxCredential {
		return identity{}, fmt.Errorf("%w: the answer has no client_id, or too long a one", fs.ErrInvalid)
	}
	if is.Secret == "" || is.Method == "none" {
		return identity{ID: is.ID, Style: oauth2.AuthStyleInParams}, nil
	}
	return identity{is.ID, is.Secret, secretStyle([]string{is.Method})}, nil
}

// said returns what a stranger says of an error, or otherwise where that says nothing.
func said(code, text, otherwise string) string {
	switch {
	case code == "":
		return otherwise
	case text == "":
		return fs.Shorten(code)
	}
	return fs.Shorten(code) + ", " + fs.Shorten(text)
}
