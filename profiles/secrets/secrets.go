// Package secrets has the values that references to secrets lead to: in a store of
// its own, which is encrypted, in hutchd's environment, in files of the host, and in
// OpenBao or Vault. A value is read each time that it is asked for, and kept nowhere.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"hutch/fs"
	"hutch/profiles/reference"
	"hutch/profiles/vault"
)

// MaxValue is how many bytes a secret has at most.
const MaxValue = 64 << 10

// Secrets are what references lead to. Its methods may be called concurrently.
type Secrets struct {
	Store *Store
	// Admit says why what is in an open file of the host can be no secret. Nil: it can.
	// Set before a secret is asked for.
	Admit func(*os.File) error
	vault *vault.Vault
}

// New returns the secrets of a service whose store is in the folder dir, which is
// made when something is put into it.
func New(dir string) *Secrets {
	return &Secrets{Store: NewStore(dir), vault: vault.New()}
}

// Close lets go of what a vault has lent.
func (s *Secrets) Close() { s.vault.Close() }

// Resolve returns what text stands for: the secret, where it is a reference, else the
// text itself. The error has the reference in it, and nothing of a value.
func (s *Secrets) Resolve(ctx context.Context, text string) (string, error) {
	r, ok, err := reference.Parse(text)
	if err != nil || !ok {
		return text, err
	}
	return s.Get(ctx, r)
}

// Get returns the secret that a reference leads to: 1 to MaxValue bytes of UTF-8
// without NUL. Of a vault it waits for the time that package vault gives it.
func (s *Secrets) Get(ctx context.Context, r reference.Reference) (string, error) {
	var value string
	var err error
	switch r.Scheme {
	case reference.Stored:
		value, err = s.Store.Get(r.Name)
	case reference.Variable:
		value, err = variable(r.Name)
	case reference.File:
		value, err = s.readFile(r.Name)
	case reference.Vault:
		value, err = s.vault.Get(ctx, r.Name)
	default:
		err = fmt.Errorf("%w: no such kind of reference", fs.ErrInvalid)
	}
	if err == nil {
		err = CheckValue(value)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	return value, nil
}

// Check says why text, if it is a reference, can never be one to a secret: it leads to a
// file that Admit says no to. What is not there yet may come.
func (s *Secrets) Check(text string) error {
	r, ok, err := reference.Parse(text)
	if err != nil || !ok || r.Scheme != reference.File { // of a wrong one there is another error
		return nil
	}
	if _, err = s.readFile(r.Name); fs.Is(err, fs.ErrNotPermitted) {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// CheckValue says why a value can be no secret.
func CheckValue(value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%w: the secret is empty", fs.ErrInvalid)
	case len(value) > MaxValue:
		return fmt.Errorf("%w: the secret is larger than %d KiB", fs.ErrTooLarge, MaxValue>>10)
	case strings.Contains(value, "\x00") || !utf8.ValidString(value):
		return fmt.Errorf("%w: the secret is no text: encode it", fs.ErrInvalid)
	}
	return nil
}

func variable(name string) (string, error) {
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("%w: hutchd has no such variable in its environment", fs.ErrNotExist)
	}
	return value, nil
}

// readFile returns a file without its last newline.
func (s *Secrets) readFile(path string) (string, error) {
	text, _, err := fs.ReadRegular(path, MaxValue+2, s.Admit)
	return strings.TrimSuffix(string(text), "\n"), because(err)
}

// because leaves the path out of an error, which the reference has already.
func because(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
