package vault

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/profiles/vault/vaulttest"
)

// env leaves of hutchd's environment what a test says.
func env(t *testing.T, vars map[string]string) {
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "VAULT_") || strings.HasPrefix(name, "BAO_") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for name, value := range vars {
		t.Setenv(name, value)
	}
}

func open(t *testing.T) *Vault {
	v := New()
	t.Cleanup(v.Close)
	return v
}

func (v *Vault) want(t *testing.T, name, want string) {
	t.Helper()
	if got, err := v.Get(t.Context(), name); got != want || err != nil {
		t.Errorf("%s is %q, %v, want %q", name, got, err, want)
	}
}

func (v *Vault) wantErr(t *testing.T, name string, kind error, text string) {
	t.Helper()
	got, err := v.Get(t.Context(), name)
	if got != "" || err == nil || !fs.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s is %q, %v, want %v with %q", name, got, err, kind, text)
	}
}

func TestKV(t *testing.T) {
	s := vaulttest.New(t)
	env(t, map[string]string{"VAULT_ADDR": s.URL, "VAULT_TOKEN": "root"})
	v := open(t)
	s.Put("app/gh", map[string]any{"token": "one", "port": 8080, "on": true, "deep": map[string]any{"a": 1}})
	v.want(t, "team/kv/app/gh/token", "one")
	v.want(t, "team/kv/app/gh/port", "8080")
	v.want(t, "team/kv/app/gh/on", "true")
	s.Put("app/gh", map[string]any{"token": "two"}) // the newest version counts
	v.want(t, "team/kv/app/gh/token", "two")
	v.wantErr(t, "team/kv/app/gh/port", fs.ErrNotExist, "no key port")
	s.Put("app/deep", map[string]any{"deep": map[string]any{"a": 1}})
	v.wantErr(t, "team/kv/app/deep/deep", fs.ErrInvalid, "neither a text nor a number")
	v.wantErr(t, "team/kv/app/none/token", fs.ErrNotExist, "nothing is at team/kv/app/none")
	v.wantErr(t, "team/kv/token", fs.ErrInvalid, "is a mount")
	s.Delete("app/gh")
	v.wantErr(t, "team/kv/app/gh/token", fs.ErrNotExist, "deleted")
	s.Refuse("team/kv/data/app/secret")
	v.wantErr(t, "team/kv/app/secret/token", fs.ErrPermission, "policy")
	s.Seal(true)
	v.wantErr(t, "team/kv/app/gh/token", fs.ErrBusy, "sealed")
	s.Seal(false)
	s.Put("app/gh", map[string]any{"token": "three"})
	v.want(t, "team/kv/app/gh/token", "three")
}

// TestUntoldMount reads where the vault does not say what its mounts are.
func TestUntoldMount(t *testing.T) {
	s := vaulttest.New(t)
	s.NoMounts = true
	env(t, map[string]string{"BAO_ADDR": s.URL, "BAO_TOKEN": "root"})
	s.Put("a", map[string]any{"k": "v"})
	open(t).wantErr(t, "team/kv/a/k", fs.ErrNotExist, "nothing is at") // which is asked for as team/data/kv/a
	direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/secret/data/a/b" {
			r.URL.Path = "/v1/" + vaulttest.KV + "/data/a"
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(direct.Close)
	t.Setenv("BAO_ADDR", direct.URL)
	open(t).want(t, "secret/a/b/k", "v")
}

func TestNoVault(t *testing.T) {
	env(t, nil)
	open(t).wantErr(t, "kv/a/k", fs.ErrNotExist, "BAO_ADDR")
	gone := httptest.NewServer(nil)
	gone.Close()
	t.Setenv("BAO_ADDR", gone.URL)
	open(t).wantErr(t, "kv/a/k", fs.ErrPermission, "no token")
	t.Setenv("BAO_TOKEN", "root")
	open(t).wantErr(t, "kv/a/k", fs.ErrRefused, "not reached")
	v := open(t)
	v.Close()
	v.wantErr(t, "kv/a/k", fs.ErrIO, "closed")
}

// TestTokenFile has a token in a file be replaced, as an agent does it.
func TestTokenFile(t *testing.T) {
	s := vaulttest.New(t)
	file := filepath.Join(t.TempDir(), "token")
	env(t, map[string]string{"VAULT_ADDR": s.URL, "VAULT_TOKEN_PATH": file})
	v := open(t)
	s.Put("a", map[string]any{"k": "v"})
	v.wantErr(t, "team/kv/a/k", fs.ErrNotExist, "token")
	os.WriteFile(file, []byte("root\n"), 0o600)
	v.want(t, "team/kv/a/k", "v")
	s.Take()
	v.wantErr(t, "team/kv/a/k", fs.ErrPermission, "token")
	s.Give("second")
	os.WriteFile(file, []byte("second\n"), 0o600)
	v.want(t, "team/kv/a/k", "v")
}

func TestAppRole(t *testing.T) {
	s := vaulttest.New(t)
	dir := t.TempDir()
	env(t, map[string]string{"VAULT_ADDR": s.URL, "VAULT_ROLE_ID": vaulttest.RoleID, "CREDENTIALS_DIRECTORY": dir})
	s.Put("a", map[string]any{"k": "v"})
	open(t).wantErr(t, "team/kv/a/k", fs.ErrPermission, "does not let role role-1 in")
	os.WriteFile(filepath.Join(dir, "vault-secret-id"), []byte(vaulttest.SecretID), 0o600)
	v := New()
	v.want(t, "team/kv/a/k", "v")
	v.want(t, "team/kv/a/k", "v")
	if n := s.Logins(); n != 1 {
		t.Errorf("logged in %d times for two reads", n)
	}
	s.Take() // it logs in anew
	v.want(t, "team/kv/a/k", "v")
	v.Close()
	if got := s.Revoked(); !slices.Equal(got, []string{"approle-token-2"}) {
		t.Errorf("given back: %q", got)
	}
}

// TestTokenRenewal waits for two renewals of the token, the first of which comes at
// once.
func TestTokenRenewal(t *testing.T) {
	s := vaulttest.New(t)
	s.TTL = 1
	env(t, map[string]string{"VAULT_ADDR": s.URL, "VAULT_ROLE_ID": vaulttest.RoleID, "VAULT_SECRET_ID": vaulttest.SecretID})
	s.Put("a", map[string]any{"k": "v"})
	v := open(t)
	v.want(t, "team/kv/a/k", "v")
	for range 2 {
		awaitRenewal(t, s, "approle-token-1")
	}
	v.want(t, "team/kv/a/k", "v")
	if n := s.Logins(); n != 1 {
		t.Errorf("logged in %d times though the token was renewed", n)
	}
}

// TestLease reads credentials that are lent: they stay the same while the lease is
// renewed, and are given back at the end.
func TestLease(t *testing.T) {
	s := vaulttest.New(t)
	s.TTL = 1
	env(t, map[string]string{"VAULT_ADDR": s.URL, "VAULT_TOKEN": "root"})
	v := New()
	v.want(t, "db/creds/app/username", "user-1")
	v.want(t, "db/creds/app/password", "password-1")
	v.want(t, "db/creds/other/username", "user-2")
	awaitRenewal(t, s, "db/creds/app/1")
	awaitRenewal(t, s, "db/creds/app/1")
	v.want(t, "db/creds/app/password", "password-1")
	v.Close()
	got := s.Revoked()
	slices.Sort(got)
	if !slices.Equal(got, []string{"db/creds/app/1", "db/creds/other/2"}) {
		t.Errorf("given back: %q", got)
	}
}

func awaitRenewal(t *testing.T, s *vaulttest.Server, id string) {
	t.Helper()
	for late := time.After(20 * time.Second); ; {
		select {
		case got := <-s.Renewed:
			if got == id {
				return
			}
		case <-late:
			t.Fatalf("%s is not renewed", id)
		}
	}
}

// TestRedirect has a vault that stands by lead to another.
func TestRedirect(t *testing.T) {
	s := vaulttest.New(t)
	s.Put("a", map[string]any{"k": "v"})
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(standby.Close)
	env(t, map[string]string{"VAULT_ADDR": standby.URL, "VAULT_TOKEN": "root"})
	open(t).want(t, "team/kv/a/k", "v")

	d := &dialer{named: "vault.example:443"} // which was found at a public address
	if _, err := d.dial(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://")); err == nil || !strings.Contains(err.Error(), "not a public address") {
		t.Errorf("a private address is dialled for a public vault: %v", err)
	}
	d.named = strings.TrimPrefix(s.URL, "http://")
	c, err := d.dial(t.Context(), "tcp", d.named)
	if err != nil || !d.inside.Load() {
		t.Fatalf("a private vault is found at a private address: %t, %v", d.inside.Load(), err)
	}
	c.Close()
}

// TestAnswers has answers be too large, too late, and none.
func TestAnswers(t *testing.T) {
	var body string
	status := 200
	hang, asked := make(chan bool), make(chan bool, 1)
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body == "" {
			asked <- true
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(bad.Close)
	t.Cleanup(func() { close(hang) })
	env(t, map[string]string{"VAULT_ADDR": bad.URL, "VAULT_TOKEN": "root"})
	for _, body = range []string{"no JSON", `{"data":{"path":7}}`, `[]`, `{"data":{"path":"kv/"}}`, strings.Repeat(`{"data":1}`, 200_000)} {
		if got, err := open(t).Get(t.Context(), "kv/a/k"); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.20q brings %q, %.200v", body, got, err)
		}
	}
	status, body = 500, `{"errors":["`+strings.Repeat("x", 10_000)+`"]}`
	if _, err := open(t).Get(t.Context(), "kv/a/k"); !fs.Is(err, fs.ErrIO) || len(err.Error()) > 500 {
		t.Errorf("a long fault is told as %v", err)
	}
	body = `{"errors":["\u001b[2Jforged\nline"]}`
	if _, err := open(t).Get(t.Context(), "kv/a/k"); err == nil || !strings.HasSuffix(err.Error(), "the vault answers 500: ?[2Jforged?line") {
		t.Errorf("what would control a terminal is told as %q", err)
	}
	body = ""
	v := New()
	got := make(chan error)
	go func() {
		_, err := v.Get(t.Context(), "kv/a/k")
		got <- err
	}()
	<-asked
	v.Close() // which does not wait for the answer
	if err := <-got; err == nil {
		t.Error("nothing was answered, and it is a secret")
	}
}
