// Package reference reads references to secrets: texts that stand in a profile, or
// in the config of a server, where a secret would, and say where it is kept. What
// they lead to, package secrets has.
package reference

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"hutch/fs"
	"hutch/mcpd/redact"
)

// Where a secret can be kept.
const (
	Stored   = "secret" // in hutchd's own store: secret:NAME
	Variable = "env"    // in hutchd's environment: env:NAME
	File     = "file"   // in a file of the host: file:PATH
	Vault    = "vault"  // in OpenBao or Vault: vault:MOUNT/PATH/KEY
)

// maxLength is the length of the longest reference.
const maxLength = 1024

// A Reference says where a secret is kept.
type Reference struct {
	Scheme string // one of the constants
	Name   string // what is there
}

// String returns the reference as it is written.
func (r Reference) String() string { return r.Scheme + ":" + r.Name }

// schemes are what a reference can begin with, each with what says of a name why
// nothing can be called so.
var schemes = []struct {
	name  string
	check func(string) error
}{
	{Stored, CheckName},
	{Variable, checkVariable},
	{File, checkFile},
	{Vault, checkVault},
}

// Parse returns the reference that text is. Where text is none, ok is false; where
// it begins as one and is wrong, so that nobody takes it for what it is not, it is an
// error.
func Parse(text string) (r Reference, ok bool, err error) {
	for _, s := range schemes {
		name, found := strings.CutPrefix(text, s.name+":")
		if !found {
			continue
		}
		r := Reference{s.name, name}
		switch {
		case len(text) > maxLength:
			err = fmt.Errorf("%w: a reference has at most %d bytes: %.40q…", fs.ErrInvalid, maxLength, text)
		case strings.ContainsFunc(text, unicode.IsControl):
			err = fmt.Errorf("%w: reference %q has a control character in it", fs.ErrInvalid, text)
		case looksSecret(name):
			err = errSecret
		default:
			if err = s.check(name); err != nil {
				err = fmt.Errorf("%.80s: %w", text, err)
			}
		}
		return r, err == nil, err
	}
	return Reference{}, false, nil
}

// Is says whether text is a reference.
func Is(text string) bool {
	_, ok, _ := Parse(text)
	return ok
}

// ParseTarget reads what a server's config says of a secret, "NAME,target=ENV": the
// reference and the variable of its environment that is to hold the secret. NAME is a
// reference, or the name of a secret in the store.
func ParseTarget(text string) (r Reference, variable string, err error) {
	name, variable, found := strings.Cut(text, ",target=")
	switch {
	case !found && looksSecret(name):
		return r, "", errSecret
	case !found:
		return r, "", fmt.Errorf("%w: %.80q does not say what is to hold the secret: write NAME,target=VARIABLE", fs.ErrInvalid, text)
	case checkVariable(variable) != nil:
		return r, "", fmt.Errorf("%w: target %.80q is not the name of a variable", fs.ErrInvalid, variable)
	}
	r, err = ParseNamed(name)
	return r, variable, err
}

// ParseNamed reads a reference, or the name of a secret in the store.
func ParseNamed(text string) (Reference, error) {
	r, ok, err := Parse(text)
	if err == nil && !ok {
		r, err = Reference{Stored, text}, CheckName(text)
	}
	return r, err
}

// CheckName says why no secret can be called name: it is 1 to 64 letters, digits,
// dots, underscores and dashes, of which the first is no dot, and it does not look
// like a secret itself. The error does not tell such a name.
func CheckName(name string) error {
	if looksSecret(name) {
		return errSecret
	}
	return fs.CheckWord("secret", name)
}

// errSecret is the error of what has a secret's value where its name is to be.
var errSecret = fmt.Errorf("%w: this looks like a secret, and not like the name of one: store it with hutch secret set NAME, and write that NAME", fs.ErrInvalid)

// looksSecret tells whether the name of a secret looks like a well-known kind of key.
func looksSecret(name string) bool { return new(redact.Redactor).Redact(name) != name }

func checkVariable(name string) error {
	if name == "" || strings.ContainsFunc(name, fs.NotIn("_")) || name[0] >= '0' && name[0] <= '9' {
		return fmt.Errorf("%w: %.80q is not the name of a variable", fs.ErrInvalid, name)
	}
	return nil
}

func checkFile(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("%w: write the absolute path of a file, as file:/etc/token", fs.ErrInvalid)
	}
	return nil
}

// checkVault wants a mount, a path in it, and a key in what is there.
func checkVault(name string) error {
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "?#%*+\\ ") {
			return fmt.Errorf("%w: %.80q cannot be in the path", fs.ErrInvalid, part)
		}
	}
	if len(parts) < 3 {
		return fmt.Errorf("%w: write vault:MOUNT/PATH/KEY", fs.ErrInvalid)
	}
	return nil
}
