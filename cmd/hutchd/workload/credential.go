package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hutch/aggd/oauth"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles/reference"
	"hutch/profiles/runconfig"
)

// A credential is what a remote server knows hutch by: the tokens of OAuth.
type credential struct {
	*oauth.Client
	of    *runconfig.Config // whose server they are for
	token string            // that the aggregator is told; guarded by the mu of the Server

	// guarded by the turn of the Server
	tried time.Time // when another token was asked for last
	since time.Time // since when none can be had; zero: it can
}

// loginToken stands for the token that a login has brought.
const loginToken = "oauth:"

// The rhythm in which a token is tried to be had, which is ToolHive's but for the
// first.
const (
	soonest   = 10 * time.Second // after the last try, when something is asked of the server
	retryTime = 10 * time.Minute
	retryMost = 24 * time.Hour
)

// byLogin tells whether a server is shown the token of a login: nothing else is said
// of what it is to be shown.
func byLogin(s *runconfig.Server) bool {
	if !s.IsRemote() || s.Auth != nil && s.Auth.Bearer.Scheme != "" {
		return false
	}
	for name := range withHeaders(wire.Server{}, s).Headers {
		if strings.EqualFold(name, "Authorization") {
			return false
		}
	}
	return s.Auth != nil || oauth.CheckURL(s.Source.Name) == nil
}

// credentialFor returns the credential of the server that c is about; nil: it has none.
func (s *Server) credentialFor(c *runconfig.Config) (*credential, error) {
	v := c.Server()
	if !byLogin(v) {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil && s.known.of == c {
		return s.known, nil
	}
	client, err := s.client(v)
	if err != nil {
		return nil, err
	}
	s.known = &credential{Client: client, of: c}
	return s.known, nil
}

// client returns what logs in to a remote server.
func (s *Server) client(v *runconfig.Server) (*oauth.Client, error) {
	is := oauth.Config{URL: v.Source.Name, Load: s.loadTokens, Save: s.saveTokens}
	if a := v.Auth; a != nil {
		is.ClientID, is.Scopes, is.ScopeParam, is.Issuer, is.AuthorizeURL = a.ClientID, a.Scopes, a.ScopeParam, a.Issuer, a.AuthorizeURL
		is.TokenURL, is.Resource, is.Params, is.CallbackPort, is.Timeout = a.TokenURL, a.Resource, a.Params, a.CallbackPort, a.Timeout
		if a.ClientSecret.Scheme != "" {
			is.Secret = func(ctx context.Context) (string, error) { return s.Gateway.Resolve(ctx, a.ClientSecret.String()) }
		}
	}
	client, err := oauth.New(is)
	if err != nil {
		return nil, fmt.Errorf("remote_auth_config: %w", err)
	}
	return client, nil
}

// tokensOf is what the store keeps the tokens of a server under.
func tokensOf(server string) string { return "oauth/" + server }

func (s *Server) loadTokens() (string, error) { return s.w.s.Secrets.Store.Own(tokensOf(s.Name)) }
func (s *Server) saveTokens(text string) error {
	return s.w.s.Secrets.Store.SetOwn(tokensOf(s.Name), text)
}

// resolve is the gateway's Resolve, with the token of a login, and those that are
// exchanged.
func (s *Server) resolve(ctx context.Context, value string) (string, error) {
	if value == exchangeToken+s.Name { // that of another server is not for this one
		if x := s.exchange(); x != nil {
			return x.token(ctx, s.Gateway)
		}
		return "", nil // the config has changed
	}
	if value != loginToken {
		return s.Gateway.Resolve(ctx, value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		return "", nil
	}
	return s.known.token, nil
}

// show has the aggregator be told a token when it is told next, and reports whether
// that is another.
func (s *Server) show(k *credential, token string) bool {
	if token != "" {
		s.HideToken(token)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	other := k.token != token
	k.token = token
	return other
}

// authenticate has a server that starts be shown the token that there is, if any: it
// may want none.
func (s *Server) authenticate(ctx context.Context, c *runconfig.Config) error {
	k, err := s.credentialFor(c)
	if k == nil || err != nil {
		return err
	}
	token, err := k.Token(ctx)
	if err != nil && !errors.Is(err, oauth.ErrLogin) {
		return err
	}
	k.tried, k.since = time.Now(), time.Time{}
	s.show(k, token)
	return nil
}

// inUse returns the credential of a server that runs, with the token that it is shown.
func (s *Server) inUse() (*credential, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || s.known.of != s.config {
		return nil, ""
	}
	return s.known, s.known.token
}

// renew has a server be shown another token than the one of a wire.TokenHash, which it
// refuses, or, of a login, the newest where that is "". It is the caller's turn.
func (s *Server) renew(ctx context.Context, refused string) error {
	if x := s.exchange(); x != nil {
		if x.refuse(refused) {
			return s.Configure(ctx)
		}
		return nil
	}
	k, token := s.inUse()
	if why := s.refusal(); k == nil && refused != "" && why != nil {
		return why
	}
	if k == nil || refused != "" && refused != wire.TokenHash(token) { // it is being told another
		return nil
	}
	var next string
	var err error
	if refused != "" {
		next, err = k.Renew(ctx, token)
	} else {
		next, err = k.Token(ctx)
	}
	k.tried = time.Now()
	other := next != "" && s.show(k, next)
	switch {
	case errors.Is(err, oauth.ErrLogin):
		return s.wantsLogin(err)
	case err == nil && !other:
		return nil
	}
	return errors.Join(err, s.Configure(ctx)) // in vain, too: who waits for a token waits no longer
}

// wantsLogin says what a person is to do.
func (s *Server) wantsLogin(why error) error {
	return fmt.Errorf("%w: log in with hutch server login %s: %w", fs.ErrPermission, s.Name, why)
}

// errRefused is returned when a remote server refuses what its config has it be sent.
var errRefused = errors.New("HTTP 401")

// refusal says what to do where a remote server refuses the token or the headers of its
// config, for which no login gets others; nil for a server that runs here.
func (s *Server) refusal() error {
	c := s.Config().Server()
	if !c.IsRemote() {
		return nil
	}
	what, do := "and is shown no token", "set remote_auth_config.bearer_token NAME,target=bearer_token"
	switch {
	case c.Auth != nil && c.Auth.Bearer.Scheme != "":
		what, do = "to the token "+c.Auth.Bearer.String(), "have that be another"
		if c.Auth.Bearer.Scheme == reference.Stored {
			do = "store another by hutch secret set " + c.Auth.Bearer.Name
		}
	case len(c.Headers)+len(c.SecretHeaders) > 0:
		what, do = "to what header_forward has it be sent", "have that be another"
	}
	return fmt.Errorf("%w: server %s answers %w %s: %s, and start it", fs.ErrPermission, s.Name, errRefused, what, do)
}

// unauthenticates tells whether an error is that a remote server refuses every token that
// there is.
func unauthenticates(err error) bool {
	return errors.Is(err, oauth.ErrLogin) || errors.Is(err, errRefused)
}

// freshen has the token of a server that runs be renewed when it is time, and when
// the server refuses it. It is the caller's turn.
func (s *Server) freshen() error {
	k, _ := s.inUse()
	x := s.exchange()
	if k == nil && x == nil {
		st, err := s.connection(s.Context())
		if why := s.refusal(); err == nil && st.Refused != "" && why != nil {
			return errors.Join(why, s.refuse(why))
		}
		return nil
	}
	ctx, cancel := context.WithCancelCause(s.Context())
	defer cancel(nil)
	s.setAbort(cancel) // who stops the server does not wait for this
	defer s.setAbort(nil)
	refused := ""
	if st, err := s.MCP.Status(ctx, s.Name); err == nil {
		refused = st.Refused
	}
	if x != nil {
		if s.told() == runconfig.AuthRetrying { // of a login, whose token it is not shown any more
			if err := s.enter(runconfig.Well, nil); err != nil {
				return err
			}
		}
		return s.renew(ctx, refused)
	}
	return s.freshenLogin(ctx, k, refused)
}

// freshenLogin is freshen for a server with a token of a login.
func (s *Server) freshenLogin(ctx context.Context, k *credential, refused string) error {
	due, retrying := k.Due(), s.told() == runconfig.AuthRetrying
	late := !due.IsZero() && !time.Now().Before(due)
	if !late && !retrying && refused == "" || (late || retrying) && time.Since(k.tried) < soonest {
		if refused == "" {
			return nil
		}
		return s.Configure(ctx) // who waits for a token waits no longer
	}
	err := s.renew(ctx, refused)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		k.since = time.Time{}
		if retrying {
			return s.enter(runconfig.Well, nil)
		}
		return nil
	case k.since.IsZero():
		k.since = k.tried
	}
	if errors.Is(err, oauth.ErrLogin) || time.Since(k.since) > retryMost {
		return s.refuse(err)
	}
	if retrying {
		return nil
	}
	return s.enter(runconfig.RetryToken, err)
}

// nextFreshen returns how long the token of the server is to be left alone.
func (s *Server) nextFreshen() time.Duration {
	k, _ := s.inUse()
	state := s.told()
	if k == nil || !state.Live() {
		return retryMost
	}
	if state == runconfig.AuthRetrying {
		return retryTime
	}
	if due := k.Due(); !due.IsZero() {
		return max(time.Until(due), soonest)
	}
	return retryMost
}

// refuse has a server that runs or starts be one that takes no token that there is.
func (s *Server) refuse(why error) error {
	return errors.Join(s.MCP.Stop(), s.enter(runconfig.Refuse, why))
}
