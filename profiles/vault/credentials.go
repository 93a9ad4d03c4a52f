package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openbao/openbao/api/v2"

	"hutch/fs"
)

// maxCredential is the size of the largest file with a token or an id.
const maxCredential = 16 << 10

// The variables that say what a vault is logged in to with, beside BAO_TOKEN and
// BAO_TOKEN_PATH, the file with a token; and each with VAULT_ in the place of BAO_. The
// credentials of systemd vault-token and vault-secret-id, where they are there, are
// the files that no variable names, and else the token is in ~/.vault-token.
const (
	envRole       = "BAO_ROLE_ID" // of AppRole
	envSecret     = "BAO_SECRET_ID"
	envSecretFile = "BAO_SECRET_ID_PATH"
)

// A login is the token that the vault takes.
type login struct {
	token string // "": there is none
	lent  bool   // the vault gave it for ours to log in with, so it goes back
}

// authenticate returns the token that the client has from then on: the one that it
// has, unless that was refused.
func (v *Vault) authenticate(ctx context.Context, c *api.Client, refused string) (string, error) {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if v.login.token != "" && v.login.token != refused {
		return v.login.token, nil
	}
	now, s, err := logIn(ctx, c, v.login)
	if err != nil {
		return "", err
	}
	v.login = now
	c.SetToken(now.token)
	if s != nil {
		v.renew(c, s, func() { v.expire(now.token) })
	}
	return now.token, nil
}

// expire forgets a token that lives no longer: the next read logs in anew.
func (v *Vault) expire(token string) {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-v.life.Done():
		return
	}
	if v.login.token == token {
		v.login = login{}
	}
}

// logIn logs in by AppRole, or takes the token that is given, and returns what says
// how long that lives, nil if it does not end.
func logIn(ctx context.Context, c *api.Client, was login) (login, *api.Secret, error) {
	if role := api.ReadBaoVariable(envRole); role != "" {
		return logInAs(ctx, c, role)
	}
	token, err := given(api.EnvVaultToken, api.EnvTokenPath, "vault-token", ".vault-token")
	switch {
	case err != nil:
		return login{}, nil, fmt.Errorf("the vault's token: %w", err)
	case token == "":
		return login{}, nil, fmt.Errorf("%w: no token for the vault: set BAO_TOKEN or VAULT_TOKEN in hutchd's environment", fs.ErrPermission)
	case token == was.token:
		return was, nil, nil
	}
	c.SetToken(token)
	s, err := c.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil || s == nil {
		return login{token: token}, nil, ignoreRefused(err) // it may have no policy to look at itself
	}
	ttl, _ := s.TokenTTL()
	renewable, _ := s.TokenIsRenewable()
	if ttl <= 0 {
		return login{token: token}, nil, nil
	}
	return login{token: token}, &api.Secret{Auth: &api.SecretAuth{
		ClientToken: token, Renewable: renewable, LeaseDuration: int(ttl / time.Second),
	}}, nil
}

func ignoreRefused(err error) error {
	if isRefused(err) {
		return nil
	}
	return err
}

// logInAs logs in by AppRole.
func logInAs(ctx context.Context, c *api.Client, role string) (login, *api.Secret, error) {
	id, err := given(envSecret, envSecretFile, "vault-secret-id", "")
	if err != nil {
		return login{}, nil, fmt.Errorf("the vault's secret id: %w", err)
	}
	body := map[string]any{"role_id": role}
	if id != "" { // a role may be without
		body["secret_id"] = id
	}
	c.ClearToken()
	s, err := c.Logical().WriteWithContext(ctx, "auth/approle/login", body)
	switch status := statusOf(err); {
	case status == 400 || status == 403:
		return login{}, nil, fmt.Errorf("%w: the vault does not let role %.80s in", fs.ErrPermission, role)
	case err != nil:
		return login{}, nil, err
	case s == nil || s.Auth == nil || s.Auth.ClientToken == "":
		return login{}, nil, fmt.Errorf("%w: the vault gives no token", fs.ErrIO)
	case s.Auth.LeaseDuration <= 0:
		return login{s.Auth.ClientToken, true}, nil, nil
	}
	return login{s.Auth.ClientToken, true}, s, nil
}

// given returns what a variable has, or a file that another names, or the
// credential, or the file of the user's home; "" if there is none of them.
func given(variable, file, credential, home string) (string, error) {
	if text := api.ReadBaoVariable(variable); text != "" {
		return text, nil
	}
	if path := api.ReadBaoVariable(file); path != "" {
		return line(path)
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); filepath.IsAbs(dir) {
		text, err := line(filepath.Join(dir, credential))
		if !errors.Is(err, os.ErrNotExist) {
			return text, err
		}
	}
	dir, err := os.UserHomeDir()
	if home == "" || err != nil {
		return "", nil
	}
	text, err := line(filepath.Join(dir, home))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// line returns the one line that a file has.
func line(path string) (string, error) {
	text, _, err := fs.ReadRegular(path, maxCredential, nil)
	one := strings.TrimSpace(string(text))
	if err == nil && one == "" {
		err = fmt.Errorf("%w: %s is empty", fs.ErrInvalid, path)
	}
	return one, err
}
