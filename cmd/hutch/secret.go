package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/term"

	"hutch/fs"
	"hutch/mcpd/redact"
	"hutch/profiles/reference"
)

// maxSecret is how many bytes a secret has at most, with its last newline.
const maxSecret = 64<<10 + 1

// secretVerbs is the table of what hutch secret does.
var secretVerbs = map[string]verb[func(context.Context, *tree, []string) error]{
	"set": {1, 1, setSecret},
	"ls":  {0, 0, listSecrets},
	"rm":  {1, -1, forgetSecrets},
}

// secret sets, lists and forgets what references to secrets lead to.
func secret(ctx context.Context, args []string) error {
	do, err := verbOf("secret", secretVerbs, args)
	if err != nil {
		return err
	}
	return connected(do)(ctx, args[1:])
}

// setSecret sets a secret to what is typed, which is not shown, or to the input.
func setSecret(ctx context.Context, c *tree, args []string) error {
	file, err := secretFile(args[0])
	if err != nil {
		return err
	}
	value, err := readSecret(ctx, args[0], os.Stdin)
	if err != nil {
		return err
	}
	if err = setFile(c, file, 0o200, string(value)); err == nil && len(strings.TrimSuffix(string(value), "\n")) < redact.Least {
		fmt.Fprintf(os.Stderr, "hutch: secret %s has fewer than %d characters: logs may show it, since so short a text is not redacted\n", args[0], redact.Least)
	}
	return err
}

// secretFile returns the file of the secret called name.
func secretFile(name string) (string, error) {
	return path.Join("secrets", name), reference.CheckName(name)
}

func readSecret(ctx context.Context, name string, in *os.File) (value []byte, err error) {
	if fd := int(in.Fd()); term.IsTerminal(fd) {
		fmt.Fprintf(os.Stderr, "secret %s: ", name)
		value, err = readHidden(ctx, fd)
		fmt.Fprintln(os.Stderr)
	} else {
		value, err = io.ReadAll(io.LimitReader(in, maxSecret+1))
	}
	switch {
	case err != nil:
		return nil, err
	case len(value) == 0 || string(value) == "\n":
		return nil, fmt.Errorf("%w: the secret is empty", fs.ErrInvalid)
	case len(value) > maxSecret:
		return nil, fmt.Errorf("%w: a secret has at most %d KiB", fs.ErrTooLarge, maxSecret>>10)
	}
	return value, nil
}

// readHidden returns the line that is typed at a terminal, which does not show it
// and is as it was when ctx ends.
func readHidden(ctx context.Context, fd int) ([]byte, error) {
	was, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	type result struct {
		line []byte
		err  error
	}
	typed := make(chan result, 1)
	go func() { // it reads on when this has returned: nobody else does
		line, err := term.ReadPassword(fd)
		typed <- result{line, err}
	}()
	select {
	case r := <-typed:
		return r.line, r.err
	case <-ctx.Done():
		term.Restore(fd, was)
		return nil, context.Cause(ctx)
	}
}

func listSecrets(_ context.Context, c *tree, _ []string) error {
	names, err := files(c, "secrets")
	for _, name := range names {
		fmt.Println(name)
	}
	return err
}

func forgetSecrets(ctx context.Context, c *tree, names []string) error {
	return forAll(ctx, names, func(name string) error {
		file := path.Join("secrets", name)
		if err := fs.CheckWord("secret", name); err != nil { // not by what its name looks like: it is to go
			return err
		}
		return missing(c, file, c.remove(file), fmt.Sprintf("no secret %q; hutch secret ls lists them", name))
	})
}
