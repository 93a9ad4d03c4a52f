package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"hutch/fs"
)

// Exchange says where the tokens of those who call a server are exchanged for tokens
// for it (RFC 8693). What is "" or nil is left out.
type Exchange struct {
	TokenURL string
	ClientID string
	// Secret returns the secret of ClientID; nil: it has none.
	Secret      func(context.Context) (string, error)
	Audience    string
	Scopes      []string
	SubjectType string // of the callers' tokens; "": access tokens
}

// The words of RFC 8693.
const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessToken   = "urn:ietf:params:oauth:token-type:access_token"
)

// ErrNoSubject is returned where who calls brings no token that could be exchanged.
var ErrNoSubject = errors.New("who calls brings no token")

// maxExchanged is how many callers' tokens an Exchanger keeps.
const maxExchanged = 1000

// An Exchanger exchanges tokens, and keeps those that it got, by the callers', until
// shortly before they end. Its methods may be called concurrently.
type Exchanger struct {
	cfg  Exchange
	host string  // of the token URL
	net  *Client // makes the requests; it has no server and no tokens

	mu     sync.Mutex // guards bySum
	bySum  map[[sha256.Size]byte]*exchanged
	lately uint64 // counts uses
}

// An Exchanged is a token for a server.
type Exchanged struct {
	Token string
	Due   time.Time // another is given from then on
	End   time.Time // nobody takes it from then on; zero, as Due: it was not said
}

// An exchanged is the token for a caller's.
type exchanged struct {
	turn chan struct{} // holds a token: whoever has it reads or replaces what follows
	got  Exchanged

	used uint64 // the last use; guarded by the mu of Exchanger
}

// NewExchanger returns an Exchanger that has no tokens. Its error says what in cfg cannot
// be.
func NewExchanger(cfg Exchange) (*Exchanger, error) {
	if err := CheckURL(cfg.TokenURL); err != nil {
		return nil, fmt.Errorf("%w: the token URL: %w", fs.ErrInvalid, err)
	}
	u, err := url.Parse(cfg.TokenURL)
	if err != nil {
		return nil, err
	}
	c := &Client{net: newTransport([]string{cfg.TokenURL}), patience: answerTime}
	return &Exchanger{cfg: cfg, host: u.Host, net: c, bySum: make(map[[sha256.Size]byte]*exchanged)}, nil
}

// Token returns the token for the server of who calls with the token subject: another
// than refused, which the server does not take; "": none. Nothing that it returns as an
// error has a token in it.
func (x *Exchanger) Token(ctx context.Context, subject, refused string) (Exchanged, error) {
	if subject == "" {
		return Exchanged{}, ErrNoSubject
	}
	e := x.of(sha256.Sum256([]byte(subject)))
	if err := take(ctx, e.turn); err != nil {
		return Exchanged{}, err
	}
	defer func() { <-e.turn }()
	if e.got.Token != refused && time.Now().Before(e.got.Due) {
		return e.got, nil
	}
	t, err := x.exchange(ctx, subject)
	if err == nil && t.AccessToken == refused {
		err = fmt.Errorf("%w: it gives the token again that the server refuses", fs.ErrPermission)
	}
	if err != nil {
		return Exchanged{}, fmt.Errorf("token exchange at %s: %w", x.host, err)
	}
	e.got = Exchanged{Token: t.AccessToken, End: t.Expiry} // of one that does not say when it ends nobody knows
	if !t.Expiry.IsZero() {
		e.got.Due = t.Expiry.Add(-min(maxMargin, time.Until(t.Expiry)/4))
	}
	return e.got, nil
}

// of returns what is kept for a caller's token. Where too much is kept, what was not used
// for longest goes.
func (x *Exchanger) of(sum [sha256.Size]byte) *exchanged {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.bySum[sum]
	if e == nil {
		if len(x.bySum) >= maxExchanged {
			x.dropOldest()
		}
		e = &exchanged{turn: make(chan struct{}, 1)}
		x.bySum[sum] = e
	}
	x.lately++
	e.used = x.lately
	return e
}

func (x *Exchanger) dropOldest() {
	var oldest [sha256.Size]byte
	first := x.lately + 1
	for sum, e := range x.bySum {
		if e.used < first {
			oldest, first = sum, e.used
		}
	}
	delete(x.bySum, oldest)
}

// exchange gets a token.
func (x *Exchanger) exchange(ctx context.Context, subject string) (*oauth2.Token, error) {
	params := url.Values{"grant_type": {grantExchange}, "subject_token": {subject}, "subject_token_type": {accessToken}, "requested_token_type": {accessToken}}
	if x.cfg.SubjectType != "" {
		params.Set("subject_token_type", x.cfg.SubjectType)
	}
	if x.cfg.Audience != "" {
		params.Set("audience", x.cfg.Audience)
	}
	set := clientcredentials.Config{ClientID: x.cfg.ClientID, TokenURL: x.cfg.TokenURL, Scopes: x.cfg.Scopes, EndpointParams: params, AuthStyle: oauth2.AuthStyleInHeader}
	if x.cfg.Secret == nil {
		set.AuthStyle = oauth2.AuthStyleInParams
	} else {
		var err error
		if set.ClientSecret, err = x.cfg.Secret(ctx); err != nil {
			return nil, err
		}
	}
	t, err := set.Token(context.WithValue(ctx, oauth2.HTTPClient, x.net.client(ctx)))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		kind := fs.ErrPermission
		if refused.Response.StatusCode >= http.StatusInternalServerError {
			kind = fs.ErrIO
		}
		return nil, fmt.Errorf("%w: %s", kind, said(refused.ErrorCode, refused.ErrorDescription, fmt.Sprintf("HTTP %d", refused.Response.StatusCode)))
	}
	if err != nil {
		return nil, x.net.unreached(ctx, err)
	}
	issued, _ := t.Extra("issued_token_type").(string)
	switch {
	case t.Type() != "Bearer":
		return nil, fmt.Errorf("%w: the token is of the type %q", fs.ErrUnsupported, fs.Shorten(t.Type()))
	case issued != "" && issued != accessToken: // RFC 8693, section 2.2.1
		return nil, fmt.Errorf("%w: an access token was asked for, and one of the type %q given", fs.ErrUnsupported, fs.Shorten(issued))
	case len(t.AccessToken) > maxCredential || strings.ContainsFunc(t.AccessToken, isUnprintable):
		return nil, fmt.Errorf("%w: what was given can be no token", fs.ErrInvalid)
	}
	return t, nil
}
