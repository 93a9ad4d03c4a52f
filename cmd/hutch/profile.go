package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hutch/fs"
	"hutch/profiles"
)

// profileFlags are those of hutch profile.
type profileFlags struct{ key, password, corp string }

// profileVerbs is the table of what hutch profile does with names and files.
var profileVerbs = map[string]verb[func(context.Context, profileFlags, []string) error]{
	"ls":     {0, 0, listProfiles},
	"show":   {1, 1, showProfile},
	"check":  {1, -1, checkProfiles},
	"sign":   {1, -1, signProfiles},
	"keygen": {0, 0, makeKeys},
}

// defineProfile has the command that shows, checks and signs profiles.
func defineProfile(flags *flag.FlagSet) action {
	var f profileFlags
	flags.StringVar(&f.key, "key", "minisign.key", "`file` of the private key; the public one is minisign.pub beside it")
	flags.StringVar(&f.password, "password", "", "`file` with the password of the key; without one it has none")
	flags.StringVar(&f.corp, "corp", profiles.CorpFolder, "`folder` of corp, to check with")
	return func(ctx context.Context, args []string) error {
		do, err := verbOf("profile", profileVerbs, args)
		if err != nil {
			return err
		}
		return do(ctx, f, args[1:])
	}
}

// listProfiles prints the names of the profiles that the service has.
func listProfiles(ctx context.Context, _ profileFlags, args []string) error {
	return connected(func(_ context.Context, c *tree, _ []string) error {
		names, err := profileNames(c, "profiles")
		for _, name := range names {
			fmt.Println(name)
		}
		return err
	})(ctx, args)
}

// showProfile prints every key of a profile, as the service has it.
func showProfile(ctx context.Context, _ profileFlags, args []string) error {
	return connected(func(_ context.Context, c *tree, args []string) error {
		text, err := shownProfile(c, args[0])
		if err == nil {
			_, err = io.WriteString(os.Stdout, text)
		}
		return err
	})(ctx, args)
}

// shownProfile returns what a profile of the service says of every key, a line each.
func shownProfile(c *tree, name string) (string, error) {
	f, err := c.open("profiles/show", os.O_RDWR)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := tell(f, name); err != nil {
		return "", err
	}
	text, err := io.ReadAll(f)
	return string(text), err
}

// checkProfiles says which of the files do not parse, with all layers that are
// there.
func checkProfiles(_ context.Context, f profileFlags, files []string) error {
	var errs []error
	for _, file := range files {
		if err := profiles.CheckFile(file, f.corp); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

// signProfiles signs files of corp.
func signProfiles(_ context.Context, f profileFlags, files []string) error {
	key, err := os.ReadFile(f.key)
	if err != nil {
		return err
	}
	password, err := f.readPassword()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := profiles.Sign(file, key, password); err != nil {
			return fmt.Errorf("%s with key %s: %w", file, f.key, err)
		}
	}
	return nil
}

// makeKeys makes a pair of keys, where none is.
func makeKeys(_ context.Context, f profileFlags, _ []string) error {
	password, err := f.readPassword()
	if err != nil {
		return err
	}
	public, private, err := profiles.NewKey(password)
	if err != nil {
		return err
	}
	if err := makeFile(f.key, private, 0o600); err != nil {
		return err
	}
	err = makeFile(filepath.Join(filepath.Dir(f.key), "minisign.pub"), public, 0o644)
	if err != nil {
		os.Remove(f.key) // a key that nobody has the other half of
	}
	return err
}

// readPassword returns the first line of the file of the password.
func (f profileFlags) readPassword() (string, error) {
	if f.password == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.password)
	line, _, _ := strings.Cut(string(text), "\n")
	if err == nil && line == "" {
		err = fmt.Errorf("%w: there is no password in %s", fs.ErrInvalid, f.password)
	}
	return line, err
}

// makeFile writes a file that is not there yet.
func makeFile(name string, text []byte, perm os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return cmp.Or(err, f.Close())
}
