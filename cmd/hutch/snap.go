package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"

	"hutch/fs"
	"hutch/fs/ninep/client"
)

// defineSnap has the command that takes a snapshot, or lists them.
func defineSnap(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "list them as JSON")
	revert := flags.Bool("revert", false, "make the VM what it was in the snapshot")
	remove := flags.Bool("rm", false, "drop the snapshot")
	act := connected(func(ctx context.Context, c *client.Conn, args []string) error {
		vm, err := vmDir(args[0])
		if err != nil {
			return err
		}
		dir := path.Join(vm, "snap")
		switch {
		case len(args) == 1:
			return snapshotList(c, args[0], dir, *asJSON)
		case *revert:
			return noSnap(c, args, tellVM(c, args[0], "revert "+fs.Quote(args[1])))
		case *remove:
			name := path.Join(dir, args[1])
			return noSnap(c, args, orExplain(c, name, c.Remove(name)))
		}
		return tellVM(c, args[0], "snap "+fs.Quote(args[1]))
	})
	return func(ctx context.Context, args []string) error {
		switch {
		case *revert && *remove:
			return misused("snap", "-revert and -rm exclude each other")
		case len(args) == 1 && (*revert || *remove):
			return misused("snap", "say the name of the snapshot")
		}
		return act(ctx, args)
	}
}

// noSnap tells that the VM, args[0], has no snapshot args[1], if err may say so.
func noSnap(c *client.Conn, args []string, err error) error {
	if fs.Errno(err) != fs.Errno(fs.ErrNotExist) {
		return err
	}
	dir := path.Join("vm", args[0])
	if _, serr := c.Stat(dir); serr != nil {
		return noVM(args[0], serr)
	}
	if _, serr := c.Stat(path.Join(dir, "snap", args[1])); serr != nil {
		return fmt.Errorf("%w: snapshot %q; hutch snap %s lists them", fs.ErrNotExist, args[1], args[0])
	}
	return err
}

func snapshotList(c *client.Conn, vm, dir string, asJSON bool) error {
	entries, err := c.ReadDir(dir)
	if err != nil {
		return noVM(vm, err)
	}
	t := newTable("NAME", "TAKEN", "FILES", "BYTES")
	for _, e := range entries {
		if !e.Mode.IsDir() {
			continue
		}
		text, err := readFile(c, path.Join(dir, e.Name, "info"))
		if err != nil {
			continue // it was dropped meanwhile
		}
		info := pairs(text)
		if asJSON {
			info["name"] = e.Name
			if err := printJSON(os.Stdout, info); err != nil {
				return err
			}
			continue
		}
		t.row(e.Name, info["taken"], info["files"], info["bytes"])
	}
	if asJSON {
		return nil
	}
	return t.flush()
}
