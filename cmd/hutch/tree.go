package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
)

// dial connects to hutchd, until ctx is done.
func dial(ctx context.Context) (*client.Conn, error) {
	addr := *address
	if addr == "" {
		addr = ninep.DefaultAddress()
	}
	c, err := client.Dial(ctx, addr)
	if err != nil {
		if hint := advice(addr, err); hint != "" {
			err = fmt.Errorf("%w: %s", err, hint)
		}
		return nil, err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c, nil
}

// connected has a command do act with a connection to hutchd.
func connected(act func(ctx context.Context, c *client.Conn, args []string) error) action {
	return func(ctx context.Context, args []string) error {
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return act(ctx, c, args)
	}
}

// advice says what to do about a service that is not reached, where err does not.
func advice(addr string, err error) string {
	switch {
	case errors.Is(err, fs.ErrInvalid): // the address: the error says what is wanted
		return ""
	case errors.Is(err, os.ErrPermission):
		return "the hutchd at " + addr + " is another user's; start your own, or say where it is with -s or $HUTCH"
	}
	return "is hutchd running? start it, or say where it is with -s or $HUTCH"
}

// writeFile writes text to a file of the tree, as echo does.
func writeFile(c *client.Conn, name, text string) error {
	f, err := c.Open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return explain(c, name, err)
	}
	return nil
}

// clone makes an anonymous object of dir. It lives as long as the file.
func clone(c *client.Conn, dir string) (*client.File, string, error) {
	f, err := c.Open(path.Join(dir, "clone"), os.O_RDWR)
	if err != nil {
		return nil, "", explain(c, path.Join(dir, "clone"), err)
	}
	p := make([]byte, 32)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, "", err
	}
	return f, strings.TrimSpace(string(p[:n])), nil
}

// tell writes a message to an open ctl of the object in dir.
func tell(c *client.Conn, ctl *client.File, dir, message string) error {
	if _, err := ctl.WriteAt([]byte(message+"\n"), 0); err != nil {
		return explain(c, path.Join(dir, "ctl"), err)
	}
	return nil
}

// explain adds the text of an error about name, of which the protocol carries
// the number alone. The service keeps the last one of each connection; one of
// another kind is of another request that was under way on ours.
func explain(c *client.Conn, name string, err error) error {
	text, terr := c.LastError()
	if terr != nil || !sameKind(text, err) {
		return err
	}
	return &told{text, err}
}

// sameKind says whether text says more of err than that it is of its kind.
func sameKind(text string, err error) bool {
	kind, _, _ := strings.Cut(fs.Text(err), ":")
	return strings.HasPrefix(text, kind+": ")
}

// told is an error with the text that the service keeps of it.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.err }

// readFile reads a file of the tree to its end.
func readFile(c *client.Conn, name string) (string, error) {
	f, err := c.Open(name, os.O_RDONLY)
	if err != nil {
		return "", explain(c, name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), orExplain(c, name, err)
}

// copyOut copies a file of the tree, which may block, to w until it ends or
// ctx is done.
func copyOut(ctx context.Context, c *client.Conn, w io.Writer, name string) error {
	return copyFrom(ctx, c, w, name, os.O_RDONLY)
}

func copyFrom(ctx context.Context, c *client.Conn, w io.Writer, name string, flags int) error {
	f, err := c.Open(name, flags)
	if err != nil {
		return explain(c, name, err)
	}
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer func() {
		if stop() {
			f.Close()
		}
	}()
	_, err = io.Copy(w, f)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return orExplain(c, name, err)
}
