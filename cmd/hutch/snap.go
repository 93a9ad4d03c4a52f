package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"

	"hutch/fs"
)

// defineSnap has the command that takes a snapshot, or lists them.
func defineSnap(flags *flag.FlagSet) action {
	asJSON := flags.Bool("json", false, "list them as JSON")
	revert := flags.Bool("revert", false, "make the VM what it was in the snapshot")
	remove := flags.Bool("rm", false, "drop the snapshot")
	act := connected(func(ctx context.Context, c *tree, args []string) error {
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
			return noSnap(c, args, c.remove(path.Join(dir, args[1])))
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
func noSnap(c *tree, args []string, err error) error {
	name := path.Join("vm", args[0], "snap", args[1])
	return noVM(c, args[0], missing(c, name, err, fmt.Sprintf("snapshot %q; hutch snap %s lists them", args[1], args[0])))
}

func snapshotList(c *tree, vm, dir string, asJSON bool) error {
	names, err := folders(c, dir)
	if err != nil {
		return noVM(c, vm, err)
	}
	t := newTable(asJSON, "NAME", "TAKEN", "FILES", "BYTES")
	for _, name := range names {
		text, err := readFile(c, path.Join(dir, name, "info"))
		if err != nil {
			continue // it was dropped meanwhile
		}
		info := pairs(text)
		info["name"] = name
		if err := t.row(info, name, info["taken"], info["files"], info["bytes"]); err != nil {
			return err
		}
	}
	return t.flush()
}

// defineDiff has the command that prints what is different in a VM from a snapshot, or
// all that was written since it was made.
func defineDiff(*flag.FlagSet) action {
	return connected(func(ctx context.Context, c *tree, args []string) error {
		vm, err := vmDir(args[0])
		if err != nil {
			return err
		}
		f, err := c.open(path.Join(vm, "snap/diff"), os.O_RDWR)
		if err != nil {
			return noVM(c, args[0], err)
		}
		defer f.closeWith(ctx)()
		names := args[1:]
		if len(names) == 0 {
			names = []string{"."}
		}
		if err := tell(f, fs.QuoteAll(names)); err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, f)
		return err
	})
}
