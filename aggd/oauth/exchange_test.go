package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hutch/fs"
)

// exchangeAt serves token exchange: who has the subject "good-N" gets "for-good-N".
func exchangeAt(t *testing.T, life int) (at string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		name, secret, _ := req.BasicAuth()
		subject := req.FormValue("subject_token")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case name != "hutch" || secret != "pass" || req.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" ||
			req.FormValue("audience") != "mcp" || req.FormValue("scope") != "a b" || req.FormValue("subject_token_type") != "urn:ietf:params:oauth:token-type:access_token":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
		case !strings.HasPrefix(subject, "good"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"not this one"}`)
		default:
			fmt.Fprintf(w, `{"access_token":"for-%s","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":%d}`, subject, life)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func newExchanger(t *testing.T, at string) *Exchanger {
	t.Helper()
	x, err := NewExchanger(Exchange{
		TokenURL: at, ClientID: "hutch", Audience: "mcp", Scopes: []string{"a", "b"},
		Secret: func(context.Context) (string, error) { return "pass", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestExchange exchanges each caller's token once, while that lasts, for its own.
func TestExchange(t *testing.T) {
	at, asked := exchangeAt(t, 3600)
	x := newExchanger(t, at)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			subject := fmt.Sprintf("good-%d", i%2)
			if got, err := x.Token(t.Context(), subject, ""); err != nil || got.Token != "for-"+subject {
				t.Errorf("for %s: %q, %v", subject, got.Token, err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times for two callers", n)
	}
	if _, err := x.Token(t.Context(), "", ""); !errors.Is(err, ErrNoSubject) {
		t.Errorf("without a token: %v", err)
	}
	_, err := x.Token(t.Context(), "s3cret", "")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "invalid_grant, not this one") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("refused: %v", err)
	}
	if _, err := x.Token(t.Context(), "good-1", "for-good-1"); err == nil || !strings.Contains(err.Error(), "gives the token again that the server refuses") || asked.Load() != 4 {
		t.Errorf("refused by the server: %v, asked %d times", err, asked.Load())
	}
	for i := range maxExchanged + 10 {
		x.of([32]byte{byte(i), byte(i >> 8), 1})
	}
	if n := len(x.bySum); n != maxExchanged {
		t.Errorf("%d are kept", n)
	}
}

// TestExchangeEnds gets another token before the one that is kept ends, and keeps none
// that does not say when.
func TestExchangeEnds(t *testing.T) {
	for life, want := range map[int]int32{0: 2, 3600: 1} {
		at, asked := exchangeAt(t, life)
		x := newExchanger(t, at)
		for range 2 {
			if _, err := x.Token(t.Context(), "good", ""); err != nil {
				t.Fatal(err)
			}
		}
		if n := asked.Load(); n != want {
			t.Errorf("%d s: asked %d times", life, n)
		}
		for _, e := range x.bySum {
			if left := time.Until(e.got.Due); life > 0 && (left > 3600*time.Second-maxMargin || left < 3000*time.Second) {
				t.Errorf("it is used for %v", left)
			}
			e.got.Due = time.Now()
		}
		x.Token(t.Context(), "good", "")
		if n := asked.Load(); n != want+1 {
			t.Errorf("%d s: asked %d times after its end", life, n)
		}
	}
}

func TestExchangeRefused(t *testing.T) {
	for _, at := range []string{"", "http://example.com/token", "https://u:p@example.com", "ftp://localhost"} {
		if _, err := NewExchanger(Exchange{TokenURL: at}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", at, err)
		}
	}
	for answer, want := range map[string]string{
		`{"access_token":"a b","token_type":"Bearer"}`:                                                               "can be no token",
		`{"access_token":"x","token_type":"mac"}`:                                                                    `of the type "MAC"`,
		`{"access_token":"x","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:id_token"}`: `an access token was asked for, and one of the type "urn:ietf:params:oauth:token-type:id_token" given`,
		`{}`:     "the answer is no token: it has no access_token",
		`<html>`: "the answer is no token: it is no JSON",
		`[]`:     "the answer is no token: its fields are not those of RFC 6749",
		`{"access_token":"x","token_type":"Bearer","expires_in":1e30}`:   "the answer is no token: its expires_in is no whole number of seconds",
		`{"access_token":"x","token_type":"Bearer","expires_in":1.5}`:    "the answer is no token: its expires_in is no whole number of seconds",
		`{"access_token":"x","token_type":"Bearer","expires_in":"soon"}`: "the answer is no token: its expires_in is no whole number of seconds",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		}))
		x := newExchanger(t, s.URL)
		if got, err := x.Token(t.Context(), "good", ""); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %q, %v", answer, got.Token, err)
		}
		s.Close()
	}
}
