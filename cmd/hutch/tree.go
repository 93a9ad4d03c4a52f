package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/node"
)

// dial connects to hutchd.
func dial(ctx context.Context) (*client.Conn, error) {
	addr := *address
	if addr == "" {
		addr = ninep.DefaultAddress()
	}
	c, err := client.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, advice(addr, err))
	}
	return c, nil
}

// advice says what to do about a service that is not reached.
func advice(addr string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
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

// explain adds the text that the tree keeps of an error, of which the
// protocol carries the number alone. A text of another kind is of another,
// older error.
func explain(c *client.Conn, name string, err error) error {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if text, rerr := readFile(c, path.Join(dir, "err")); rerr == nil {
			if text = strings.TrimSpace(text); !sameKind(text, err) {
				return err
			}
			return &told{text, err}
		}
		if dir == "." || dir == "/" {
			return err
		}
	}
}

// sameKind says whether text, as an err file has it, begins as err does.
func sameKind(text string, err error) bool {
	kind, _, _ := strings.Cut(node.Text(err), ":")
	return text == kind || strings.HasPrefix(text, kind+":")
}

// told is an error with the text that the tree keeps of it.
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
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

// copyOut copies a file of the tree, which may block, to w until it ends or
// ctx is done.
func copyOut(ctx context.Context, c *client.Conn, w io.Writer, name string) error {
	f, err := c.Open(name, os.O_RDONLY)
	if err != nil {
		return err
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
	return err
}
