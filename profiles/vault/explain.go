package vault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/openbao/openbao/api/v2"

	"hutch/aggd/guard"
	"hutch/fs"
)

// maxSaid is how much of what a vault says of an error is told.
const maxSaid = 200

// explain says what an error about a path means and what to do.
func explain(err error, path string) error {
	var answered *api.ResponseError
	var sent *url.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answered):
		return explainAnswer(answered, path)
	case errors.Is(err, guard.ErrRefused):
		return fmt.Errorf("%w: the vault leads to a private address, and is not at one itself", fs.ErrPermission)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: the vault does not answer within %v", fs.ErrTimedOut, requestTime)
	case errors.As(err, &sent):
		return fmt.Errorf("the vault is not reached: %w", sent.Err) // without the URL
	}
	return err
}

func explainAnswer(e *api.ResponseError, path string) error {
	said := fs.PlainLine(strings.Join(e.Errors, "; "))
	sealed := slices.ContainsFunc(e.Errors, func(s string) bool { return strings.Contains(s, "sealed") })
	switch {
	case e.StatusCode == 403:
		return fmt.Errorf("%w: the vault refuses %s: is its token good, and has that a policy to read it?", fs.ErrPermission, path)
	case e.StatusCode == 404:
		return fmt.Errorf("%w: nothing is at %s", fs.ErrNotExist, path)
	case e.StatusCode == 503 && sealed:
		return fmt.Errorf("%w: the vault is sealed: unseal it", fs.ErrBusy)
	}
	return fmt.Errorf("%w: the vault answers %d: %.*s", fs.ErrIO, e.StatusCode, maxSaid, said)
}
