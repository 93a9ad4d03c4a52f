package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/fs"
)

// ErrLogin is returned where only a person can help, by logging in: nobody has, or
// the authorization server takes what there is no more.
var ErrLogin = errors.New("not logged in")

// Config says which server tokens are for, and what is known of how they are got.
// What is "" or nil is found out.
type Config struct {
	URL string // of the MCP server

	ClientID string
	// Secret returns the secret of ClientID; nil: it has none.
	Secret func(context.Context) (string, error)

	Scopes       []string
	ScopeParam   string // what the parameter with the scopes is called; "": scope
	Issuer       string
	AuthorizeURL string
	TokenURL     string
	Resource     string            // RFC 8707
	Params       map[string]string // more, of the authorization request
	CallbackPort int               // 0: any
	Timeout      time.Duration     // of a login; 0: DefaultTimeout

	// Load returns what was given to Save last, "" if nothing was. It is a secret.
	// Save has text be kept; "" has what there was be forgotten.
	Load func() (string, error)
	Save func(text string) error
}

// DefaultTimeout is how long a login waits for the person.
const DefaultTimeout = 5 * time.Minute

// maxTimeout is how long it may be said to wait.
const maxTimeout = time.Hour

// A Client has the tokens for one MCP server. Its methods may be called concurrently.
type Client struct {
	cfg      Config
	net      transport
	patience time.Duration // for an answer

	login chan struct{} // holds a token: whoever has it logs in
	turn  chan struct{} // holds a token: whoever has it reads, renews or replaces the grant

	mu    sync.Mutex // guards what follows
	grant *grant     // nil: there is none, or it was not read yet
	read  bool
}

// New returns a client that knows what was saved. Its error says what in cfg cannot be.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, patience: answerTime, login: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	var named []string
	for _, u := range []struct{ what, text string }{
		{"the server", cfg.URL}, {"issuer", cfg.Issuer}, {"authorize_url", cfg.AuthorizeURL}, {"token_url", cfg.TokenURL},
	} {
		if u.text == "" {
			continue
		}
		if err := CheckURL(u.text); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", fs.ErrInvalid, u.what, err)
		}
		named = append(named, u.text)
	}
	for name := range cfg.Params {
		if slices.Contains(ours, name) || name == cfg.ScopeParam {
			return nil, fmt.Errorf("%w: oauth_params: %s is hutch's to say", fs.ErrInvalid, name)
		}
	}
	if cfg.ScopeParam != "" && cfg.ScopeParam != scopeParam && slices.Contains(ours, cfg.ScopeParam) {
		return nil, fmt.Errorf("%w: scope_param_name: %s is another parameter's name", fs.ErrInvalid, cfg.ScopeParam)
	}
	c.net = newTransport(named)
	return c, nil
}

const scopeParam = "scope"

// ours are the parameters of an authorization request that a config does not say.
var ours = []string{
	"client_id", "client_secret", "code", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri", "resource",
	"response_mode", "response_type", scopeParam, "state",
}

// resource returns what tokens are to be for where nothing else is said.
func (c *Config) resource() string {
	if c.Resource != "" {
		return c.Resource
	}
	text, _, _ := strings.Cut(c.URL, "#")
	return text
}

// timeout returns how long a login waits.
func (c *Config) timeout() time.Duration {
	if c.Timeout <= 0 {
		return DefaultTimeout
	}
	return min(c.Timeout, maxTimeout)
}

// take waits for one's turn.
func take(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
