package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"time"

	"hutch/fs"
)

// defineRun has the command that makes a sandbox, runs a command in it, and
// removes it.
func defineRun(flags *flag.FlagSet) action {
	r := &runner{options: defineOptions(flags), settings: defineSettings(flags)}
	flags.StringVar(&r.name, "name", "", "call the VM `name`, and keep it, stopped, when the command has ended")
	flags.StringVar(&r.entrypoint, "entrypoint", "", "run this `program` instead of the image's entrypoint; none if it is -")
	flags.BoolVar(&r.remove, "rm", false, "remove the VM of -name when the command has ended")
	flags.Func("p", "have a `port` here lead to one in the VM until the command has ended, as 8080:80; may come several times", r.addPort)
	return func(ctx context.Context, args []string) (err error) {
		switch {
		case r.remove && r.detach:
			return misused("run", "-rm and -d exclude each other: nobody waits for the command's end")
		case len(r.ports) > 0 && r.detach:
			return misused("run", "-p and -d exclude each other: hutch forward has ports lead to a VM that runs on")
		}
		if r.listeners, err = listen(r.ports); err != nil {
			return err
		}
		defer r.unlisten()
		return started(r.run)(ctx, args)
	}
}

// A runner is a run under way.
type runner struct {
	*options
	settings         *settings
	name, entrypoint string
	remove           bool
	ports            []mapping
	listeners        []net.Listener // of ports
}

func (r *runner) addPort(text string) error {
	m, err := parseMapping(text)
	r.ports = append(r.ports, m)
	return err
}

func (r *runner) unlisten() {
	for _, l := range r.listeners {
		l.Close()
	}
}

// lead has the ports lead into a VM until stop is called.
func (r *runner) lead(ctx context.Context, c *tree, vm string) (stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f := newForwarder(c, vm, cancel)
	for i, l := range r.listeners {
		if addr := l.Addr().String(); addr != r.ports[i].listen { // a free one was asked for
			fmt.Fprintf(os.Stderr, "hutch: %s leads to port %s\n", addr, r.ports[i].port)
		}
		f.serve(ctx, l, r.ports[i].port)
	}
	return func() {
		cancel(nil)
		f.work.Wait()
	}
}

func (r *runner) run(ctx context.Context, c *tree, args []string) error {
	if r.name != "" || r.detach {
		return r.named(ctx, c, args)
	}
	if err := r.settings.known(c); err != nil {
		return err
	}
	ctl, name, err := clone(c, "vm") // goes with our connection, however we end
	if err != nil {
		return err
	}
	defer ctl.Close()
	vm := path.Join("vm", name)
	if err := r.settings.permit(c, name); err != nil {
		return err
	}
	defer r.settings.forbid(c)
	for _, m := range append(r.settings.messages(), "start") {
		if err := tell(ctl, m); err != nil {
			return err
		}
	}
	warn(c, vm)
	err = r.command(ctx, c, vm, args)
	return cmp.Or(err, tell(ctl, "kill"))
}

// named runs the command in a VM that stays: stopped, or if it is not waited
// for, running. If the command does not begin, nobody wants the VM.
func (r *runner) named(ctx context.Context, c *tree, args []string) error {
	if r.name == "" {
		r.name = fmt.Sprintf("run-%d", time.Now().UnixNano()/1e6)
	}
	if err := create(c, r.name, r.settings); err != nil {
		return err
	}
	vm := path.Join("vm", r.name)
	err := tellVM(c, r.name, "start")
	if err == nil {
		warn(c, vm)
		err = r.command(ctx, c, vm, args)
	}
	if r.detach && r.began {
		return err
	}
	err = cmp.Or(err, tellVM(c, r.name, "kill"))
	if r.remove || !r.began {
		err = cmp.Or(err, c.remove(vm))
		r.settings.forbid(c)
	}
	return err
}

// command runs what the image and args say.
func (r *runner) command(ctx context.Context, c *tree, vm string, args []string) error {
	image, err := imageOf(c, vm)
	if err != nil {
		return err
	}
	if r.entrypoint != "" {
		image.entrypoint, image.cmd = []string{r.entrypoint}, nil
	}
	if r.entrypoint == "-" {
		image.entrypoint = nil
	}
	words := image.command(args)
	if len(words) == 0 {
		return misused("run", "the image says no command: say one")
	}
	r.defaults(image)
	defer r.lead(ctx, c, vm)()
	return r.meant(c, args, execute(ctx, c, vm, words, r.options))
}

// meant tells who has said an image where its command stands what is meant.
func (r *runner) meant(c *tree, args []string, err error) error {
	var v verdict
	if len(args) == 0 || !errors.As(err, &v) || !errors.Is(v, fs.ErrNotExist) {
		return err
	}
	if near := nearImage(c, args[0]); near != "" || strings.Contains(args[0], ":") {
		v.text += "; an image is said by -image " + cmp.Or(near, args[0])
	}
	return v
}

// defineExec has the command that runs a command in a VM that is there.
func defineExec(flags *flag.FlagSet) action {
	o := defineOptions(flags)
	return func(ctx context.Context, args []string) error {
		vm, words := args[0], args[1:]
		switch {
		case words[0] == "--":
			words = words[1:]
		case strings.HasPrefix(words[0], "-"):
			return misused("exec", words[0]+": flags stand before the VM, and -- behind it before a program's name with a dash")
		}
		if len(words) == 0 {
			return misuse(lookup("exec").usage())
		}
		dir, err := vmDir(vm)
		if err != nil {
			return err
		}
		return connected(func(ctx context.Context, c *tree, words []string) error { return o.in(ctx, c, dir, words) })(ctx, words)
	}
}

// in runs a command in the VM of directory dir, as its image has it.
func (o *options) in(ctx context.Context, c *tree, dir string, words []string) error {
	image, err := imageOf(c, dir)
	if err != nil {
		return noVM(c, path.Base(dir), err)
	}
	o.defaults(image)
	return execute(ctx, c, dir, words, o)
}

// defineShell has the command that is a shell in a VM: bash if that is there.
func defineShell(flags *flag.FlagSet) action {
	o := defineOptions(flags)
	return connected(func(ctx context.Context, c *tree, args []string) error {
		dir, err := runningVM(c, args[0])
		if err != nil {
			return err
		}
		return o.in(ctx, c, dir, []string{"sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"})
	})
}
