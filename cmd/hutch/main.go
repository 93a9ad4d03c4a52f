// Hutch drives the sandboxes that hutchd serves.
//
// Usage:
//
//	hutch [-s ADDRESS] COMMAND [FLAGS] [ARGUMENTS]
//
// The commands are listed by hutch without arguments. Each is a client of
// hutchd's tree over 9P and can do nothing that plain file I/O on the tree
// could not. The address is unix!PATH; -s, then $HUTCH, then the place where
// hutchd listens by default say it. See hutch(1).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// address is where hutchd listens.
var address = flag.String("s", os.Getenv("HUTCH"), "`address` of hutchd, unix!PATH")

func main() {
	name, args := global(os.Args[1:])
	if name == "help" && len(args) == 0 {
		fmt.Print(usage())
		return
	}
	if name == "help" {
		name, args = args[0], []string{"-h"}
	}
	c := lookup(name)
	if c == nil {
		fmt.Fprintf(os.Stderr, "hutch: unknown command %q%s; hutch alone lists them\n", name, suggestion(name))
		os.Exit(2)
	}
	os.Exit(status(call(c, args), c.runsOther()))
}

// global parses the flags before a command, and returns its name and arguments.
func global(args []string) (name string, rest []string) {
	flags := flag.CommandLine
	flags.Init("hutch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.Bool("version", false, "the command version")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return "help", nil
	case *version:
		return "version", flags.Args()
	case err == nil && flags.NArg() > 0:
		return flags.Arg(0), flags.Args()[1:]
	case err != nil:
		fmt.Fprintln(os.Stderr, "hutch:", err)
	}
	fmt.Fprint(os.Stderr, usage())
	os.Exit(2)
	return
}

// call runs c with a context that ends at the first of its signals, and
// returns the status that shells make of that signal if it is why c ended.
func call(c *command, args []string) error {
	act, args, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	first := make(chan os.Signal, 1)
	notify(first, c.signals...)
	defer signal.Stop(first)
	go func() {
		select {
		case sig := <-first:
			cancel(exit(128 + int(sig.(syscall.Signal))))
		case <-ctx.Done():
		}
	}()
	err = act(ctx, args)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// parse returns what c does with its flags as args say, and the rest of args.
func (c *command) parse(args []string) (action, []string, error) {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	act := c.define(flags)
	args, err := c.split(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Println("usage: " + c.usage() + "\n\n" + c.doc)
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		return nil, nil, err
	case err != nil:
		return nil, nil, misuse(c.usage() + "\nhutch: " + err.Error() + "; hutch help " + c.name + " has its flags, and -- ends them")
	case len(args) < c.min || c.max >= 0 && len(args) > c.max:
		return nil, nil, misuse(c.usage())
	}
	return act, args, nil
}

// split parses the flags among args, and returns the rest. They may stand
// behind others up to --, but where words follow that are not for us.
func (c *command) split(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		left := flags.Args()
		ended := len(left) < len(args) && args[len(args)-len(left)-1] == "--"
		if len(left) == 0 || ended || c.words {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

// runsOther says that the command runs another one in a VM, and ends as that does.
func (c *command) runsOther() bool { return slices.Contains([]string{"run", "exec", "shell"}, c.name) }

func (c *command) usage() string { return strings.TrimSpace("hutch " + c.name + " " + c.args) }

// notify sends signals to to, but for those that whoever started us has had
// ignored, as nohup does.
func notify(to chan<- os.Signal, signals ...os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

func usage() string {
	var b strings.Builder
	b.WriteString("usage: hutch [-s unix!PATH] COMMAND [FLAGS] [ARGUMENTS]\n       hutch [-version]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-36s %s\n", c.name+" "+strings.TrimSpace(strings.TrimPrefix(c.args, "[FLAGS]")), c.doc)
	}
	b.WriteString("\nhutch help COMMAND has the flags of one. The service is hutchd, which hutch run and hutch mcp start where none runs.\nThe manuals are hutch(1), hutch(4).\n")
	return b.String()
}
