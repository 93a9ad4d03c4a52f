package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"hutch/fs"
)

// endpoint returns the folder of what has MCP sessions: servers/NAME, groups/NAME, and
// vm/NAME or NAME for a VM. It fails if that cannot have one now.
func endpoint(c *tree, what string) (dir string, err error) {
	of, name, found := strings.Cut(what, "/")
	if !found {
		of, name = "vm", what
	}
	switch of {
	case "vm":
		if dir, err = vmDir(name); err == nil {
			err = mustRun(c, name)
		}
	case "servers":
		if dir, err = serverDir(name); err == nil {
			err = mustServe(c, name)
		}
	case "groups":
		if dir, err = entryOf("groups", "a group", name); err == nil {
			_, err = c.stat(dir)
		}
	default:
		err = fmt.Errorf("%w: %q has no MCP sessions: want servers/NAME, groups/NAME or vm/NAME", fs.ErrInvalid, what)
	}
	return dir, err
}

// mcpSession has an MCP client on the other side of our standard input and
// output use the tools of a VM, a server or a group, in a session that ends with
// us. It returns when the input has ended and all is answered.
func mcpSession(ctx context.Context, c *tree, args []string) error {
	dir, err := endpoint(c, args[0])
	if err != nil {
		return err
	}
	ctl, n, err := clone(c, path.Join(dir, "mcp/sessions"))
	if err != nil {
		return err
	}
	defer ctl.Close()
	data, err := c.open(path.Join(dir, "mcp/sessions", n, "data"), os.O_RDWR)
	if err != nil {
		return err
	}
	defer data.closeWith(ctx)()
	asked, ended := make(chan error, 1), make(chan error, 1)
	go func() { // not waited for: a read of standard input cannot be called back
		_, err := io.Copy(io.NewOffsetWriter(data, 0), os.Stdin)
		asked <- err
		ended <- tell(ctl, "eof")
	}()
	told := make(chan error, 1)
	go func() { // nor a write to standard output
		_, err := io.Copy(os.Stdout, io.NewSectionReader(data, 0, 1<<62))
		told <- err
	}()
	select {
	case err = <-told:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errLost):
		return verdict{"connection to hutchd lost, and the MCP session with it", 125, nil}
	case err != nil:
		return err
	}
	select {
	case err := <-asked:
		return cmp.Or(err, <-ended)
	default:
		return fmt.Errorf("%w: the MCP session was ended: is %s still there?", fs.ErrPipe, dir)
	}
}
