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

// placeOf returns the folder of what has MCP sessions and a ledger: servers/NAME,
// groups/NAME, and vm/NAME or NAME for a VM.
func placeOf(what string) (dir string, err error) {
	of, name, found := strings.Cut(what, "/")
	if !found {
		of, name = "vm", what
	}
	switch of {
	case "vm":
		return vmDir(name)
	case "servers":
		return serverDir(name)
	case "groups":
		return entryOf("groups", "a group", name)
	}
	return "", fmt.Errorf("%w: %q has no MCP sessions: want servers/NAME, groups/NAME or vm/NAME", fs.ErrInvalid, what)
}

// placeIn is placeOf of something that is there. A VM that is the sandbox of a server is told
// of by its bare name, since what is asked of the server is not asked of it, and refused
// where a server is called so, too.
func placeIn(c *tree, what string) (dir string, err error) {
	dir, err = placeOf(what)
	if err != nil || strings.Contains(what, "/") {
		return dir, err
	}
	status, _ := readFile(c, path.Join(dir, "status")) // where there is no VM, its user tells
	owner := pairs(status)["owner"]
	if owner == "" {
		return dir, nil
	}
	if _, err := c.stat(path.Join("servers", what)); err == nil {
		return "", fmt.Errorf("%w: %s is a server, and a VM, the sandbox of %s: write servers/%[2]s or vm/%[2]s", fs.ErrInvalid, what, owner)
	}
	if strings.HasPrefix(owner, "servers/") {
		fmt.Fprintf(os.Stderr, "hutch: VM %s is the sandbox of a server: what is asked of that is in %s\n", what, owner)
	}
	return dir, nil
}

// noPlace tells that there is nothing at a place, if that is why err is.
func noPlace(c *tree, dir string, err error) error {
	switch name := path.Base(dir); path.Dir(dir) {
	case "vm":
		return noVM(c, name, err)
	case "servers":
		return noServer(c, dir, err)
	default:
		if !isMissing(err) {
			return err
		}
		known, _ := folders(c, "groups")
		return missing(c, dir, err, fmt.Sprintf("no group %q%s; hutch group make %[1]s makes it", name, meant(name, known, "")))
	}
}

// endpoint returns the place of what has MCP sessions. It fails if that cannot have one
// now.
func endpoint(c *tree, what string) (dir string, err error) {
	if dir, err = placeIn(c, what); err != nil {
		return dir, err
	}
	switch name := path.Base(dir); path.Dir(dir) {
	case "vm":
		err = mustRun(c, name)
	case "servers":
		err = mustServe(c, name)
	default:
		_, err = c.stat(dir)
		err = noPlace(c, dir, err)
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
