package tree

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"hutch/fs"
	"hutch/profiles/reference"
	"hutch/profiles/secrets"
)

func secretNames(c call) ([]string, error) { return c.At.s.Secrets.Store.Names() }

func enterSecret(c call, name string) (at, error) {
	names, err := c.At.s.Secrets.Store.Names()
	if err != nil {
		return at{}, err
	}
	if !slices.Contains(names, name) {
		return at{}, fmt.Errorf("%w: %s", fs.ErrNotExist, name)
	}
	return secretAt(c, name), nil
}

// secretAt is where the secret called name is, or is to be.
func secretAt(c call, name string) at { return at{s: c.At.s, name: "secrets/" + name} }

func newSecret(c call, name string) (at, error) { return secretAt(c, name), reference.CheckName(name) }

func dropSecret(c call, name string) error {
	err := c.At.s.Secrets.Store.Forget(name)
	if err == nil {
		c.At.s.forget(func(i item) bool { return i == item{name: "secrets/" + name} })
		c.At.s.cfg.Log.Info("secret forgotten", "name", name, "by", personOf(c.Who))
	}
	return err
}

// secretHandle is an open file that sets a secret: to all that was written, when it
// is closed.
type secretHandle struct {
	fs.MadeUp
	c      call
	append bool

	mu      sync.Mutex // guards what follows
	text    []byte
	written bool  // something ever was
	dirty   bool  // it is not set yet
	bad     error // why it will not be
}

func openSecret(c call, flags int) (fs.Handle, error) {
	return &secretHandle{c: c, append: flags&os.O_APPEND != 0}, nil
}

func (h *secretHandle) ReadAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (h *secretHandle) WriteAt(_ context.Context, p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.append {
		off = int64(len(h.text))
	}
	switch end := off + int64(len(p)); {
	case h.bad != nil:
		return 0, h.bad
	case off > int64(len(h.text)):
		return 0, fmt.Errorf("%w: a secret is written in order", fs.ErrInvalid)
	case end > secrets.MaxValue+1: // with a newline
		h.bad, h.text = fmt.Errorf("%w: a secret has at most %d KiB", fs.ErrTooLarge, secrets.MaxValue>>10), nil
		return 0, h.bad
	}
	h.text = append(h.text[:off], p...)
	h.written, h.dirty = true, true
	return len(p), nil
}

// Flush sets the secret to what was written, without its last newline.
func (h *secretHandle) Flush(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty || h.bad != nil {
		return h.bad
	}
	h.dirty = false
	err := h.c.At.s.Secrets.Store.Set(h.c.Name, strings.TrimSuffix(string(h.text), "\n"))
	if err == nil {
		h.c.At.s.cfg.Log.Info("secret set", "name", h.c.Name, "by", personOf(h.c.Who))
	}
	return err
}

func (h *secretHandle) Sync(ctx context.Context) error { return h.Flush(ctx) }

// Close says of a file into which nothing was written that this sets no secret. A
// flush does not, since a shell that moves a descriptor flushes too.
func (h *secretHandle) Close() error {
	if err := h.Flush(context.Background()); err != nil || h.written {
		return err
	}
	return fmt.Errorf("%w: nothing was written: a secret is not empty", fs.ErrInvalid)
}
