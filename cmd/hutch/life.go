package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"

	"hutch/fs"
)

// each has a command do something to every VM, or image, that its arguments
// name. What fails is told, and does not keep the others from it.
func each(do func(c *tree, name string) error) action {
	return connected(func(ctx context.Context, c *tree, args []string) error {
		return forAll(ctx, args, func(name string) error { return do(c, name) })
	})
}

func forAll(ctx context.Context, names []string, do func(name string) error) error {
	var result error
	for _, name := range names {
		err := do(name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && len(names) == 1:
			return err
		case err != nil:
			fmt.Fprintf(os.Stderr, "hutch: %s: %s\n", name, fs.Text(err))
			result = exit(1)
		}
	}
	return result
}

// control passes a message to the ctl of each VM.
func control(message string) func(*flag.FlagSet) action {
	return plain(each(func(c *tree, vm string) error { return tellVM(c, vm, message) }))
}

func start(c *tree, vm string) error {
	err := tellVM(c, vm, "start")
	if err == nil {
		warn(c, path.Join("vm", vm))
	}
	return err
}

// tellVM writes a message to the ctl of a VM.
func tellVM(c *tree, vm, message string) error {
	dir, err := vmDir(vm)
	if err != nil {
		return err
	}
	return noVM(c, vm, writeFile(c, dir+"/ctl", message+"\n"))
}

// vmDir returns the directory of a VM, and imageDir that of an image. A name
// that would lead elsewhere is none.
func vmDir(name string) (string, error) {
	dir, err := entryOf("vm", "a VM", name)
	if server, found := strings.CutPrefix(name, "servers/"); found && err != nil {
		err = fmt.Errorf("%w: hutch server starts, stops and removes servers, as hutch server stop %s; hutch ps lists the VMs of their sandboxes", err, server)
	}
	return dir, err
}

func imageDir(name string) (string, error) { return entryOf("images", "an image", name) }

func entryOf(dir, kind, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.Contains(name, "/") || name == "clone" {
		return "", fmt.Errorf("%w: %q is not the name of %s", fs.ErrInvalid, name, kind)
	}
	return path.Join(dir, name), nil
}

// runningVM returns the folder of a VM, which has to run.
func runningVM(c *tree, vm string) (dir string, err error) {
	if dir, err = vmDir(vm); err == nil {
		err = mustRun(c, vm)
	}
	return dir, err
}

// mustRun says why what needs a running VM cannot be done.
func mustRun(c *tree, vm string) error {
	status, err := readFile(c, path.Join("vm", vm, "status"))
	if err != nil {
		return noVM(c, vm, err)
	}
	if state, _, _ := strings.Cut(status, "\n"); state != "running" {
		return fmt.Errorf("%w: vm %q does not run, it is %s: hutch start or resume has it run", fs.ErrBusy, vm, state)
	}
	return nil
}

// noVM tells that there is no such VM, if that is why err is, and what else has its name.
func noVM(c *tree, vm string, err error) error {
	if !isMissing(err) {
		return err
	}
	say := fmt.Sprintf("no vm %q; hutch ps lists them", vm)
	for _, dir := range []string{"servers", "groups"} {
		if _, err := c.stat(path.Join(dir, vm)); err == nil {
			say = fmt.Sprintf("no vm %q, but there is %s/%[1]s", vm, dir)
		}
	}
	if status, err := readFile(c, path.Join("servers", vm, "status")); err == nil {
		say += "; hutch server starts, stops and removes it"
		if box := pairs(status)["vm"]; box != "" {
			say += ", and its sandbox is the VM " + box
		}
	}
	return missing(c, path.Join("vm", vm), err, say)
}

// missing has err be what to say where there is no dir, if that is why err is.
func missing(c *tree, dir string, err error, say string) error {
	if isMissing(err) {
		if _, err := c.stat(dir); isMissing(err) {
			return fmt.Errorf("%w: %s", fs.ErrNotExist, say)
		}
	}
	return err
}

func isMissing(err error) bool { return fs.Is(err, fs.ErrNotExist) }

func defineRemove(flags *flag.FlagSet) action {
	force := flags.Bool("f", false, "stop those that run, and forget what is suspended")
	return each(func(c *tree, vm string) error { return removeVM(c, vm, *force) })
}

// removeVM removes a VM; with force one that runs or is suspended, too.
func removeVM(c *tree, vm string, force bool) error {
	dir, err := vmDir(vm)
	if err != nil {
		return err
	}
	if force {
		if state, _ := readFile(c, dir+"/status"); alive(state) {
			if err := tellVM(c, vm, "kill"); err != nil {
				return err
			}
		}
	}
	return noVM(c, vm, c.remove(dir))
}

// alive says whether a VM of this status has to be stopped to be removed.
func alive(status string) bool {
	state, _, _ := strings.Cut(status, "\n")
	return state != "created" && state != "stopped" && state != "failed" && state != ""
}

func defineFork(flags *flag.FlagSet) action {
	live := flags.Bool("live", false, "with its memory: the copy runs on where the VM is")
	return connected(func(ctx context.Context, c *tree, args []string) error {
		message := "fork "
		if *live {
			message += "-live "
		}
		err := tellVM(c, args[0], message+fs.Quote(args[1]))
		if err == nil && *live {
			fmt.Fprintf(os.Stderr, "hutch: what ran in %s, an agent too, runs on in both, %[1]s and %s\n", args[0], args[1])
		}
		return err
	})
}
