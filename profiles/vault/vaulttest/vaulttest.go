// Package vaulttest has a vault for tests: a server that answers as the HTTP API of
// OpenBao and Vault is documented, for KV version 2, an engine whose secrets have
// leases, tokens and AppRole. It is no vault: all is in memory, and policies are
// lists of paths that are refused.
package vaulttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The mounts, and what logs in by AppRole.
const (
	KV       = "team/kv" // of version 2
	Dynamic  = "db"      // whose credentials are made at each read
	RoleID   = "role-1"
	SecretID = "secret-id-1"
)

// A Server is a vault. Its fields are for before the first request, its methods for
// any time.
type Server struct {
	URL string
	TTL int // seconds that tokens and leases live without renewal

	// Renewed gets the id of each lease, or the token, that was renewed; what is
	// not taken is lost.
	Renewed chan string

	// NoMounts has the server not tell where it has its mounts, as to a token
	// without any policy.
	NoMounts bool

	mu       sync.Mutex // guards what follows
	versions map[string][]map[string]any
	refused  map[string]bool // paths
	tokens   map[string]bool
	revoked  []string
	sealed   bool
	made     int // tokens and leases
	logins   int
}

// New returns a server that runs until the test ends, and takes the token "root".
func New(t testing.TB) *Server {
	s := &Server{
		TTL: 3600, Renewed: make(chan string, 16),
		versions: map[string][]map[string]any{}, refused: map[string]bool{}, tokens: map[string]bool{"root": true},
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Put makes data a new version of what is at a path of KV.
func (s *Server) Put(path string, data map[string]any) {
	s.do(func() { s.versions[path] = append(s.versions[path], maps.Clone(data)) })
}

// Delete deletes the last version of what is at a path of KV.
func (s *Server) Delete(path string) { s.Put(path, nil) }

// Refuse has a path, as it is read, be refused.
func (s *Server) Refuse(path string) { s.do(func() { s.refused[path] = true }) }

// Seal seals the vault, or unseals it.
func (s *Server) Seal(sealed bool) { s.do(func() { s.sealed = sealed }) }

// Give makes a token good.
func (s *Server) Give(token string) { s.do(func() { s.tokens[token] = true }) }

// Take makes every token bad.
func (s *Server) Take() { s.do(func() { clear(s.tokens) }) }

// Logins returns how often somebody logged in by AppRole.
func (s *Server) Logins() (n int) { s.do(func() { n = s.logins }); return n }

// Revoked returns the tokens and leases that were given back.
func (s *Server) Revoked() (list []string) { s.do(func() { list = s.revoked }); return list }

func (s *Server) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	status, answer := s.answer(r)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if answer != nil {
		json.NewEncoder(w).Encode(answer)
	}
}

type object = map[string]any

func fault(status int, texts ...string) (int, object) {
	return status, object{"errors": append([]string{}, texts...)}
}

// answer answers a request; mu is held.
func (s *Server) answer(r *http.Request) (int, object) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	var body object
	json.NewDecoder(r.Body).Decode(&body)
	token := r.Header.Get("X-Vault-Token")
	switch {
	case s.sealed:
		return fault(503, "Vault is sealed")
	case path == "auth/approle/login":
		return s.logIn(body)
	case !s.tokens[token] || s.refused[path]:
		return fault(403, "1 error occurred:\n\t* permission denied\n\n")
	}
	switch path {
	case "auth/token/lookup-self":
		return 200, response(object{"data": object{"id": token, "ttl": s.TTL, "renewable": true}})
	case "auth/token/renew-self":
		return s.renew(token, object{"auth": s.auth(token)})
	case "auth/token/revoke-self":
		delete(s.tokens, token)
		s.revoked = append(s.revoked, token)
		return 204, nil
	case "sys/leases/renew":
		id, _ := body["lease_id"].(string)
		return s.renew(id, object{"lease_id": id, "renewable": true, "lease_duration": s.TTL})
	case "sys/leases/revoke":
		id, _ := body["lease_id"].(string)
		s.revoked = append(s.revoked, id)
		return 204, nil
	}
	return s.read(path)
}

func (s *Server) read(path string) (int, object) {
	if asked, ok := strings.CutPrefix(path, "sys/internal/ui/mounts/"); ok {
		return s.mount(asked)
	}
	if strings.HasPrefix(path, Dynamic+"/creds/") {
		s.made++
		return 200, response(object{
			"lease_id": fmt.Sprintf("%s/%d", path, s.made), "renewable": true, "lease_duration": s.TTL,
			"data": object{"username": fmt.Sprintf("user-%d", s.made), "password": fmt.Sprintf("password-%d", s.made)},
		})
	}
	at, ok := strings.CutPrefix(path, KV+"/data/")
	versions := s.versions[at]
	if !ok || len(versions) == 0 {
		return fault(404)
	}
	last := versions[len(versions)-1]
	status, deleted := 200, ""
	if last == nil {
		status, deleted = 404, time.Now().UTC().Format(time.RFC3339Nano)
	}
	return status, response(object{"data": object{"data": last, "metadata": object{
		"created_time": time.Now().UTC().Format(time.RFC3339Nano), "custom_metadata": nil,
		"deletion_time": deleted, "destroyed": false, "version": len(versions),
	}}})
}

// mount tells of the mount that a path is in.
func (s *Server) mount(path string) (int, object) {
	mounts := map[string]object{
		KV:      {"type": "kv", "options": object{"version": "2"}},
		Dynamic: {"type": "database", "options": nil},
	}
	for name, m := range mounts {
		if !s.NoMounts && strings.HasPrefix(path+"/", name+"/") {
			m["path"] = name + "/"
			return 200, response(object{"data": m})
		}
	}
	return fault(403, "preflight capability check returned 403, please ensure client's policies grant access to path \""+path+"/\"")
}

func (s *Server) logIn(body object) (int, object) {
	if body["role_id"] != RoleID || body["secret_id"] != SecretID {
		return fault(400, "invalid role or secret ID")
	}
	s.made++
	s.logins++
	token := fmt.Sprintf("approle-token-%d", s.made)
	s.tokens[token] = true
	return 200, response(object{"auth": s.auth(token)})
}

func (s *Server) auth(token string) object {
	return object{"client_token": token, "renewable": true, "lease_duration": s.TTL, "policies": []string{"default"}}
}

func (s *Server) renew(id string, answer object) (int, object) {
	select {
	case s.Renewed <- id:
	default:
	}
	return 200, response(answer)
}

// response fills in what every answer has.
func response(has object) object {
	all := object{
		"request_id": "0", "lease_id": "", "renewable": false, "lease_duration": 0,
		"data": nil, "wrap_info": nil, "warnings": nil, "auth": nil,
	}
	maps.Copy(all, has)
	return all
}
