package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"hutch/fs"
)

// mcpSession has an MCP client on the other side of our standard input and
// output use the servers of a VM, in a session that ends with us. It returns
// when the input has ended and all is answered.
func mcpSession(ctx context.Context, c *tree, args []string) error {
	vm, err := vmDir(args[0])
	if err != nil {
		return err
	}
	if err := mustRun(c, args[0]); err != nil {
		return err
	}
	ctl, n, err := clone(c, path.Join(vm, "mcp/sessions"))
	if err != nil {
		return err
	}
	defer ctl.Close()
	data, err := c.open(path.Join(vm, "mcp/sessions", n, "data"), os.O_RDWR)
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
		return fmt.Errorf("%w: the MCP session was ended: is vm %q still there?", fs.ErrPipe, args[0])
	}
}
