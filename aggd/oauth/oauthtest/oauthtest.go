// Package oauthtest has an authorization server for tests, with the MCP server whose
// tokens it gives out. It checks what RFC 6749, 7591, 7636, 8628 and 8707 have clients
// do, and can be made to lie. All is in memory, and every person says yes.
package oauthtest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is an authorization server, and the MCP server at MCP. Its fields are for
// before the first request, its methods for any time.
type Server struct {
	URL  string // the issuer's
	MCP  string // the URL of the MCP server
	Life int    // seconds that an access token is said to hold; 0: nothing is said

	// Change is given the answers by their paths, to change them. A nil answer is none.
	Change map[string]func(answer map[string]any)
	// Handle answers in the place of the server, by paths.
	Handle map[string]http.HandlerFunc
	// Challenge is what the MCP server says in WWW-Authenticate; "": where its
	// metadata is.
	Challenge string
	// JWT has access tokens be JWTs of that issuer.
	JWT string
	// Secret is what clients get that register, and have to show; "": none.
	Secret string
	// Pending are the answers to those who ask for the token of a device code, before
	// one is given: errors of RFC 8628.
	Pending []string

	t  testing.TB
	mu sync.Mutex // guards what follows

	made     int
	clients  map[string][]string // redirect URIs
	codes    map[string]url.Values
	tokens   map[string]bool   // access tokens that hold
	renewals map[string]string // refresh tokens that hold, with their clients
	used     map[string]bool   // refresh tokens that were used
	asked    []string          // paths, in order
	asking   url.Values        // the last request for a person's yes
	device   string
	ill      bool     // nobody gets a token
	given    []string // all tokens
}

// The paths of the authorization server.
const (
	Metadata  = "/.well-known/oauth-authorization-server"
	Protected = "/.well-known/oauth-protected-resource/mcp"
	Authorize = "/authorize"
	Token     = "/token"
	Register  = "/register"
	Device    = "/device"
)

// New returns a server that runs until the test ends.
func New(t testing.TB) *Server {
	s := Unserved(t)
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL, s.MCP = h.URL, h.URL+"/mcp"
	return s
}

// Unserved returns a server that nobody can reach but by its ServeHTTP.
func Unserved(t testing.TB) *Server {
	return &Server{
		URL: "http://127.0.0.1", MCP: "http://127.0.0.1/mcp", Life: 3600, t: t,
		Change: map[string]func(map[string]any){}, Handle: map[string]http.HandlerFunc{},
		clients: map[string][]string{}, codes: map[string]url.Values{}, tokens: map[string]bool{}, renewals: map[string]string{}, used: map[string]bool{},
	}
}

// ServeHTTP answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, req.URL.Path)
	s.mu.Unlock()
	if h := s.Handle[req.URL.Path]; h != nil {
		h(w, req)
		return
	}
	switch req.URL.Path {
	case "/mcp":
		s.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).ServeHTTP(w, req)
	case Protected:
		s.answer(w, req, map[string]any{"resource": s.MCP, "authorization_servers": []string{s.URL}, "scopes_supported": []string{"notes:read", "notes:write"}})
	case Metadata:
		s.answer(w, req, map[string]any{
			"issuer": s.URL, "authorization_endpoint": s.URL + Authorize, "token_endpoint": s.URL + Token, "registration_endpoint": s.URL + Register,
			"device_authorization_endpoint": s.URL + Device, "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
		})
	case Register:
		s.register(w, req)
	case Authorize:
		s.authorize(w, req)
	case Device:
		s.deviceCode(w, req)
	case Token:
		s.token(w, req)
	default:
		http.NotFound(w, req)
	}
}

// Guard has only those reach h who have a token that holds.
func (s *Server) Guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		good := s.tokens[token]
		s.mu.Unlock()
		if good {
			h.ServeHTTP(w, req)
			return
		}
		challenge := s.Challenge
		if challenge == "" {
			challenge = fmt.Sprintf("Bearer error=\"invalid_token\", resource_metadata=%q", s.URL+Protected)
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "who are you?", http.StatusUnauthorized)
	})
}

func (s *Server) answer(w http.ResponseWriter, req *http.Request, answer map[string]any) {
	if change := s.Change[req.URL.Path]; change != nil {
		change(answer)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func (s *Server) refuse(w http.ResponseWriter, code, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	json.NewEncoder(w).Encode(map[string]any{"error": code, "error_description": why})
}

// next returns a text that none was before.
func (s *Server) next(what string) string {
	s.made++
	return fmt.Sprintf("%s-%d", what, s.made)
}

func (s *Server) register(w http.ResponseWriter, req *http.Request) {
	var wish struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(req.Body).Decode(&wish); err != nil || wish.Method != "none" {
		s.refuse(w, "invalid_client_metadata", fmt.Sprint(err))
		return
	}
	s.mu.Lock()
	id := s.next("client")
	s.clients[id] = wish.Redirects
	s.mu.Unlock()
	answer := map[string]any{"client_id": id, "token_endpoint_auth_method": "none"}
	if s.Secret != "" {
		answer["client_secret"], answer["token_endpoint_auth_method"] = s.Secret, "client_secret_basic"
	}
	s.answer(w, req, answer)
}

// Client has a client be known that did not register.
func (s *Server) Client(id string, redirects ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = redirects
}

func (s *Server) authorize(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = q
	redirects, known := s.clients[q.Get("client_id")]
	back := q.Get("redirect_uri")
	switch {
	case !known || !slices.Contains(redirects, back):
		http.Error(w, "no such client: "+q.Encode(), http.StatusBadRequest)
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "":
		http.Redirect(w, req, back+"?error=invalid_request&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
		return
	case q.Get("resource") != s.MCP:
		http.Redirect(w, req, back+"?error=invalid_target&state="+url.QueryEscape(q.Get("state"))+"&iss="+url.QueryEscape(s.URL), http.StatusFound)
		return
	}
	code := s.next("code")
	s.codes[code] = q
	answer := map[string]any{"code": code, "state": q.Get("state"), "iss": s.URL}
	if change := s.Change[Authorize]; change != nil {
		change(answer)
	}
	to := url.Values{}
	for name, value := range answer {
		to.Set(name, fmt.Sprint(value))
	}
	http.Redirect(w, req, back+"?"+to.Encode(), http.StatusFound)
}

// Visit does what the browser of a person does who says yes: it opens a URL and goes
// where that leads. It returns the page that it ends at.
func (s *Server) Visit(ctx context.Context, at string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func (s *Server) deviceCode(w http.ResponseWriter, req *http.Request) {
	req.ParseForm()
	s.mu.Lock()
	s.device, s.asking = s.next("device"), req.Form
	device := s.device
	s.mu.Unlock()
	if _, known := s.clients[req.Form.Get("client_id")]; !known || req.Form.Get("resource") != s.MCP {
		s.refuse(w, "invalid_request", req.Form.Encode())
		return
	}
	s.answer(w, req, map[string]any{"device_code": device, "user_code": "WDJB-MJHT", "verification_uri": s.URL + "/verify", "expires_in": 600, "interval": 1})
}

func (s *Server) token(w http.ResponseWriter, req *http.Request) {
	req.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ill {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	id := req.Form.Get("client_id")
	if s.Secret != "" {
		name, secret, _ := req.BasicAuth() // escaped as RFC 6749, 2.3.1, has it
		id, _ = url.QueryUnescape(name)
		if secret, _ = url.QueryUnescape(secret); secret != s.Secret {
			s.refuse(w, "invalid_client", "the secret is wrong")
			return
		}
	}
	if req.Form.Get("resource") != s.MCP {
		s.refuse(w, "invalid_target", "a token for what?")
		return
	}
	switch kind := req.Form.Get("grant_type"); kind {
	case "authorization_code":
		asked, known := s.codes[req.Form.Get("code")]
		delete(s.codes, req.Form.Get("code"))
		sum := sha256.Sum256([]byte(req.Form.Get("code_verifier")))
		if !known || asked.Get("client_id") != id || asked.Get("redirect_uri") != req.Form.Get("redirect_uri") ||
			asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			s.refuse(w, "invalid_grant", "the code is not for you")
			return
		}
	case "refresh_token":
		refresh := req.Form.Get("refresh_token")
		switch {
		case s.used[refresh]: // somebody has stolen it
			clear(s.renewals)
			clear(s.tokens)
			s.refuse(w, "invalid_grant", "used before")
			return
		case s.renewals[refresh] != id:
			s.refuse(w, "invalid_grant", "no such refresh token")
			return
		}
		delete(s.renewals, refresh)
		s.used[refresh] = true
	case "urn:ietf:params:oauth:grant-type:device_code":
		if req.Form.Get("device_code") != s.device {
			s.refuse(w, "invalid_grant", "no such code")
			return
		}
		if len(s.Pending) > 0 {
			code := s.Pending[0]
			s.Pending = s.Pending[1:]
			s.refuse(w, code, "")
			return
		}
	default:
		s.refuse(w, "unsupported_grant_type", kind)
		return
	}
	s.give(w, req, id)
}

func (s *Server) give(w http.ResponseWriter, req *http.Request, id string) {
	access, refresh := s.next("test-access-token"), s.next("test-refresh-token")
	if s.JWT != "" {
		claims, _ := json.Marshal(map[string]any{"iss": s.JWT, "jti": access, "exp": time.Now().Add(time.Hour).Unix()})
		part := base64.RawURLEncoding.EncodeToString
		access = part([]byte(`{"alg":"none"}`)) + "." + part(claims) + "." + part([]byte("sign"))
	}
	s.tokens[access], s.renewals[refresh] = true, id
	s.given = append(s.given, access, refresh)
	answer := map[string]any{"access_token": access, "token_type": "bearer", "refresh_token": refresh}
	if s.Life > 0 {
		answer["expires_in"] = s.Life
	}
	s.answer(w, req, answer)
}

// Revoke has no access token hold any more; those that renew them do.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// RevokeAll has nothing hold any more.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	clear(s.renewals)
}

// Ill has nobody get a token until it is well.
func (s *Server) Ill(ill bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ill = ill
}

// Given returns all tokens that were given.
func (s *Server) Given() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}

// Asked returns how often a path was asked for.
func (s *Server) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, p := range s.asked {
		if p == path {
			n++
		}
	}
	return n
}

// Asking returns the parameters by which a person was asked last.
func (s *Server) Asking() url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asking
}

// Paths returns what was asked for, in order.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
