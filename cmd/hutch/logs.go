package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"hutch/fs"
)

// defineLogs has the command that prints a log of a VM, or the output of a
// command in it.
func defineLogs(flags *flag.FlagSet) action {
	follow := flags.Bool("f", false, "go on as more comes")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		vm, err := vmDir(args[0])
		if err != nil {
			return err
		}
		status, err := readFile(c, path.Join(vm, "status"))
		if err != nil {
			return noVM(c, args[0], err)
		}
		name, gone := "serial", ""
		if !alive(status) {
			gone = "; the output of commands goes when the VM stops"
		}
		if n := lastDetached(c, vm); len(args) == 2 {
			name = args[1]
		} else if n > 0 {
			name = detachedName(n)
		} else if gone != "" {
			fmt.Fprintf(os.Stderr, "hutch: VM %s does not run: this is its log %s%s\n", args[0], name, gone)
		}
		if file := path.Join(vm, "log", name); isFile(c, file) {
			return printLog(ctx, c, os.Stdout, file, 0, *follow)
		}
		dir := path.Join(vm, "exec", name)
		if _, err := c.stat(dir); err != nil {
			return fmt.Errorf("%w: VM %s has neither a log nor a command %q: %s%s", fs.ErrNotExist, args[0], name, logNames(c, vm), gone)
		}
		return printOutput(ctx, c, dir, *follow)
	})
}

func isFile(c *tree, name string) bool {
	mode, err := c.stat(name)
	return err == nil && !mode.IsDir()
}

// logNames tells what there is to print.
func logNames(c *tree, vm string) string {
	var names []string
	for _, dir := range []string{"log", "exec"} {
		entries, _ := c.readDir(path.Join(vm, dir))
		for _, e := range entries {
			if e.Name != "clone" {
				names = append(names, e.Name)
			}
		}
	}
	return "there are " + strings.Join(names, ", ")
}

// printLog prints a file that grows, whose reads end, from off on. Followed, it is
// printed until ctx ends, with all that it has got by then.
func printLog(ctx context.Context, c *tree, w io.Writer, name string, off int64, follow bool) error {
	for {
		ended := ctx.Err() // before the read: what came until then is in it
		n, err := printFrom(c, w, name, off)
		switch {
		case err != nil || !follow:
			return err
		case ended != nil:
			return ended
		}
		if off += n; n > 0 {
			continue
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// printFrom prints what the file has from off on, and returns how much. What
// a read gives may be what was there at the open.
func printFrom(c *tree, w io.Writer, name string, off int64) (int64, error) {
	f, err := c.open(name, os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, io.NewSectionReader(f, off, 1<<62))
}

// follow prints to w all that a log gets until stop is called, if that
// takes longer than a second.
func follow(ctx context.Context, c *tree, w io.Writer, name string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var printing sync.WaitGroup
	off, err := c.size(name)
	if err == nil {
		printing.Go(func() {
			select {
			case <-time.After(time.Second):
				printLog(ctx, c, w, name, off, true) // what ends it, what we wait for tells
			case <-ctx.Done():
			}
		})
	}
	return func() {
		cancel()
		printing.Wait()
	}
}

// printOutput prints both outputs of a command: all until now, or until it ends.
func printOutput(ctx context.Context, c *tree, dir string, follow bool) error {
	flags := os.O_RDONLY
	if !follow {
		flags |= syscall.O_NONBLOCK
	}
	return copyStreams(ctx, c, dir, flags, map[string]io.Writer{"stdout": os.Stdout, "stderr": os.Stderr})
}
