package workload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"hutch/aggd/oauth"
	"hutch/aggd/wire"
	"hutch/cmd/hutchd/gateway"
	"hutch/mcpd/vmcp"
)

// An exchange is what a remote server of a group is shown: tokens that are given in
// exchange for the one that the group's config has.
type exchange struct {
	server  string
	tokens  *oauth.Exchanger
	subject string // the token that is exchanged, or the reference to it
	again   func() // has the server be shown what is due

	mu      sync.Mutex // guards what follows
	shown   oauth.Exchanged
	of      string      // the hash of the subject that it was given for
	refused string      // that the server does not take; "": none
	tried   time.Time   // when another was asked for last, since one was refused
	next    *time.Timer // does again
}

// exchangeToken, with the name of a server, stands for the token that was exchanged.
const exchangeToken = "exchange:"

// exchange returns what has the tokens of a remote server, nil if the config has none
// exchanged for it. Its error says what is missing.
func (g *Group) exchange(server string) (*exchange, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.config.Strategy(server)
	if s.Type != vmcp.TokenExchange {
		return nil, nil
	}
	if x := g.exchanges[server]; x != nil {
		return x, nil
	}
	by := s.Exchange
	is := oauth.Exchange{TokenURL: by.TokenURL, ClientID: by.ClientID, Audience: by.Audience, Scopes: by.Scopes, SubjectType: by.SubjectTokenType}
	if ref := by.SecretRef(); ref != "" {
		is.Secret = func(ctx context.Context) (string, error) { return hidden(ctx, g.Gateway, ref) }
	}
	tokens, err := oauth.NewExchanger(is)
	if err == nil && by.SubjectToken == "" {
		err = fmt.Errorf("%w, and the config of group %s has none: give its tokenExchange a subjectToken", oauth.ErrNoSubject, g.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("token_exchange: %w", err)
	}
	x := &exchange{server: server, tokens: tokens, subject: by.SubjectToken, again: func() { g.showAgain(server) }}
	g.exchanges[server] = x
	return x, nil
}

// hidden returns what a reference stands for, or a value itself: a secret in any case.
func hidden(ctx context.Context, gw *gateway.Gateway, value string) (string, error) {
	is, err := gw.Resolve(ctx, value)
	if err == nil {
		gw.Hide(is)
	}
	return is, err
}

// exchanged returns a remote server that is shown the tokens of an exchange.
func exchanged(d wire.Server) wire.Server {
	d.BearerToken, d.Renewed = exchangeToken+d.Name, true
	return d
}

// token returns the token for the server. The one that it is shown does while another
// cannot be had, until it ends or the subject is another.
func (x *exchange) token(ctx context.Context, gw *gateway.Gateway) (string, error) {
	x.mu.Lock()
	was, of, refused := x.shown, x.of, x.refused
	x.mu.Unlock()
	subject, err := hidden(ctx, gw, x.subject)
	var is oauth.Exchanged
	if err == nil {
		is, err = x.tokens.Token(ctx, subject, refused)
	}
	if err != nil {
		if was.Token == "" || was.Token == refused || !time.Now().Before(was.End) || subject != "" && wire.TokenHash(subject) != of {
			return "", err
		}
		is = was
	} else {
		of = wire.TokenHash(subject)
	}
	gw.HideToken(is.Token)
	x.show(is, of)
	return is.Token, nil
}

// show notes what the server is shown, given for the subject of a hash, and has it be
// shown another when that is due.
func (x *exchange) show(is oauth.Exchanged, of string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shown, x.of = is, of
	x.stop()
	if !is.Due.IsZero() {
		x.next = time.AfterFunc(max(time.Until(is.Due), soonest), x.again)
	}
}

// stop has the token be what it is. Its caller holds mu.
func (x *exchange) stop() {
	if x.next != nil {
		x.next.Stop()
	}
}

// end has nothing more be asked for.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stop()
}

// refuse notes that the server does not take the token of a wire.TokenHash, once in a
// while, and reports whether that is the one that it is shown: who waits for another is
// to be told which it is, be it the same.
func (x *exchange) refuse(hash string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if hash == "" || hash != wire.TokenHash(x.shown.Token) {
		return false
	}
	if time.Since(x.tried) >= soonest {
		x.refused, x.tried = x.shown.Token, time.Now()
	}
	return true
}

// showAgain has a server be shown what its exchange gives now. It does not wait for that.
func (g *Group) showAgain(server string) {
	if s, err := g.w.Server(server); err == nil && s.group() == g.Name {
		s.regrouped()
		return
	}
	g.renew()
}

// endExchanges forgets all tokens. Its caller holds mu.
func (g *Group) endExchanges() {
	for _, x := range g.exchanges {
		x.end()
	}
	g.exchanges = make(map[string]*exchange)
}

// resolve is the gateway's Resolve, with the tokens of exchanges.
func (g *Group) resolve(ctx context.Context, value string) (string, error) {
	server, is := strings.CutPrefix(value, exchangeToken)
	if !is {
		return g.Gateway.Resolve(ctx, value)
	}
	x, err := g.exchange(server)
	if x == nil || err != nil { // the config has changed
		return "", err
	}
	return x.token(ctx, g.Gateway)
}

// heard has servers that only the config names be shown another token than one that they
// refuse. It does not wait for that.
func (g *Group) heard() {
	g.mu.Lock()
	var list []*exchange
	if g.serves {
		for _, b := range g.config.Backends {
			if x := g.exchanges[b.Name]; x != nil {
				list = append(list, x)
			}
		}
	}
	g.mu.Unlock()
	if len(list) == 0 {
		return
	}
	g.Later(func(ctx context.Context) error {
		for _, x := range list {
			if st, err := g.MCP.Status(ctx, x.server); err == nil && x.refuse(st.Refused) {
				g.renew()
			}
		}
		return nil
	})
}

// exchange returns what has the tokens that the server is shown by its group's config,
// nil if there is none.
func (s *Server) exchange() *exchange {
	c := s.Config()
	if c == nil || !c.Server().IsRemote() {
		return nil
	}
	g, err := s.w.Group(s.group())
	if err != nil {
		return nil
	}
	x, _ := g.exchange(s.Name)
	return x
}
