package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/oauth/oauthtest"
	"hutch/fs"
)

func TestRenew(t *testing.T) {
	s := oauthtest.New(t)
	k := new(kept)
	c := newClient(t, Config{URL: s.MCP}, k)
	if err := login(t, c, s); err != nil {
		t.Fatal(err)
	}
	first := mustToken(t, c)
	age(c, time.Hour-30*time.Second)
	var all sync.WaitGroup
	tokens := make([]string, 8)
	for i := range tokens {
		all.Go(func() { tokens[i], _ = c.Token(t.Context()) })
	}
	all.Wait()
	second := tokens[0]
	if second == first || len(slices.Compact(tokens)) != 1 || try(t, s, second) != http.StatusNoContent {
		t.Errorf("the first token is %q, then %q", first, tokens)
	}
	s.Revoke()
	if _, err := c.Renew(t.Context(), second); !errors.Is(err, ErrLogin) {
		t.Errorf("a token that is refused at once: %v", err)
	}
	age(c, time.Minute)
	for range 3 { // of those who were refused at the same time
		third, err := c.Renew(t.Context(), second)
		if err != nil || third == second || try(t, s, third) != http.StatusNoContent {
			t.Fatalf("renewed: %q, %v", third, err)
		}
	}
	if n := s.Asked(oauthtest.Token); n != 3 {
		t.Errorf("the authorization server was asked for tokens %d times, want 3", n)
	}

	age(c, time.Hour-30*time.Second) // which holds for a while
	was := mustToken(t, newClient(t, Config{URL: s.MCP}, k))
	s.Handle[oauthtest.Token] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	if got := mustToken(t, c); got != was {
		t.Errorf("the token that holds is %q, not %q", got, was)
	}
	age(c, time.Minute)
	if token, err := c.Token(t.Context()); err == nil || errors.Is(err, ErrLogin) {
		t.Errorf("the authorization server is ill: %q, %v", token, err)
	}
	for code, passing := range map[string]bool{"invalid_grant": false, "unauthorized_client": false, "temporarily_unavailable": true, "server_error": true} {
		s.Handle[oauthtest.Token] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":%q,"access_token":"leak"}`, code)
		}
		_, err := c.Token(t.Context())
		if err == nil || errors.Is(err, ErrLogin) == passing || !strings.Contains(err.Error(), code) || strings.Contains(err.Error(), "leak") {
			t.Errorf("%s: %v", code, err)
		}
	}
	delete(s.Handle, oauthtest.Token)
	k.err = fs.ErrNoSpace
	if _, err := c.Token(t.Context()); !errors.Is(err, fs.ErrNoSpace) {
		t.Errorf("a disk that is full: %v", err)
	}
	if code := try(t, s, mustToken(t, c)); code != http.StatusNoContent {
		t.Errorf("what could not be saved is worth HTTP %d", code)
	}
	k.err = nil
	s.JWT = "https://evil.example"
	age(c, time.Hour)
	if token, err := c.Token(t.Context()); !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), "another issuer") {
		t.Errorf("renewed by another issuer: %q, %v", token, err)
	}
}

// TestNoRenewal has a token end that nobody can renew.
func TestNoRenewal(t *testing.T) {
	s := oauthtest.New(t)
	s.Change[oauthtest.Token] = func(m map[string]any) { delete(m, "refresh_token") }
	c := newClient(t, Config{URL: s.MCP}, new(kept))
	if err := login(t, c, s); err != nil {
		t.Fatal(err)
	}
	age(c, time.Hour-30*time.Second)
	mustToken(t, c)
	age(c, time.Minute)
	if token, err := c.Token(t.Context()); !errors.Is(err, ErrLogin) {
		t.Errorf("it has ended: %q, %v", token, err)
	}
}

// TestOtherGrant has what was kept not be for what the config says now.
func TestOtherGrant(t *testing.T) {
	s, other := oauthtest.New(t), oauthtest.New(t)
	k := new(kept)
	if err := login(t, newClient(t, Config{URL: s.MCP}, k), s); err != nil {
		t.Fatal(err)
	}
	for what, cfg := range map[string]Config{
		"server": {URL: other.MCP}, "issuer": {URL: s.MCP, Issuer: other.URL}, "token_url": {URL: s.MCP, TokenURL: other.URL + oauthtest.Token},
		"resource": {URL: s.MCP, Resource: other.MCP}, "client_id": {URL: s.MCP, ClientID: "another"},
	} {
		if token, err := newClient(t, cfg, k).Token(t.Context()); token != "" || !errors.Is(err, ErrLogin) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %q, %v", what, token, err)
		}
	}
	for _, text := range []string{"{", "{}", "null", `{"Access":7}`} {
		if token, err := newClient(t, Config{URL: s.MCP}, &kept{text: text}).Token(t.Context()); token != "" || !errors.Is(err, ErrLogin) {
			t.Errorf("%s: %q, %v", text, token, err)
		}
	}
	if n := other.Asked(oauthtest.Token); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}
