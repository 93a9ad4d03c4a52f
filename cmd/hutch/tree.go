package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"hutch/fs"
	"hutch/fs/ninep"
)

// dial connects to hutchd, until ctx is done.
func dial(ctx context.Context) (*tree, error) {
	addr := cmp.Or(*address, ninep.DefaultAddress())
	c, err := attach(ctx, addr)
	if hint := advice(addr, err); err != nil && hint != "" {
		err = fmt.Errorf("%w: %s", err, hint)
	}
	return c, err
}

// connected has a command do act with a connection to hutchd.
func connected(act func(ctx context.Context, c *tree, args []string) error) action {
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
func writeFile(c *tree, name, text string) error {
	f, err := c.open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return cmp.Or(err, f.Close())
}

// setFile has the file called name have text and no more, and makes it if need be.
func setFile(c *tree, name string, perm os.FileMode, text string) error {
	f, err := c.create(name, perm)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return cmp.Or(err, f.Close())
}

// clone makes an anonymous object of dir. It lives as long as the file.
func clone(c *tree, dir string) (*file, string, error) {
	f, err := c.open(path.Join(dir, "clone"), os.O_RDWR)
	if err != nil {
		return nil, "", err
	}
	p := make([]byte, 32)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, "", err
	}
	return f, strings.TrimSpace(string(p[:n])), nil
}

// tell writes a message to an open ctl.
func tell(ctl *file, message string) error {
	_, err := ctl.WriteAt([]byte(message+"\n"), 0)
	return err
}

// readFile reads a file of the tree to its end.
func readFile(c *tree, name string) (string, error) {
	var text strings.Builder
	err := copyFile(context.Background(), c, &text, name, os.O_RDONLY)
	return text.String(), err
}

// copyFile copies a file of the tree to w until it ends or ctx is done.
func copyFile(ctx context.Context, c *tree, w io.Writer, name string, flags int) error {
	f, err := c.open(name, flags)
	if err != nil {
		return err
	}
	defer f.closeWith(ctx)()
	_, err = io.Copy(w, f)
	return cmp.Or(ctx.Err(), err)
}

// copyStreams copies files of dir at once. One that would block, opened so
// that it does not, ends where it stands.
func copyStreams(ctx context.Context, c *tree, dir string, flags int, to map[string]io.Writer) error {
	var copying sync.WaitGroup
	var mu sync.Mutex // guards result
	var result error
	for name, w := range to {
		copying.Go(func() {
			err := copyFile(ctx, c, w, path.Join(dir, name), flags)
			if fs.Errno(err) != syscall.EAGAIN {
				mu.Lock()
				result = errors.Join(result, err)
				mu.Unlock()
			}
		})
	}
	copying.Wait()
	return result
}

// folders returns the names of the folders in dir, and files those of all else.
func folders(c *tree, dir string) ([]string, error) { return namesIn(c, dir, true) }
func files(c *tree, dir string) ([]string, error)   { return namesIn(c, dir, false) }

func namesIn(c *tree, dir string, ofFolders bool) (list []string, err error) {
	entries, err := c.readDir(dir)
	for _, e := range entries {
		if e.Mode.IsDir() == ofFolders {
			list = append(list, e.Name)
		}
	}
	return list, err
}

// things returns what the folders in dir are called for, by fs.FileName.
func things(c *tree, dir string) ([]string, error) {
	list, err := folders(c, dir)
	for i, name := range list {
		if thing, err := url.PathUnescape(name); err == nil {
			list[i] = thing
		}
	}
	return list, err
}
