// Hutch drives the sandboxes that hutchd serves.
//
// Usage:
//
//	hutch [-s ADDRESS] COMMAND [ARGUMENTS]
//
// The commands are listed by hutch without arguments. Each is a client of
// hutchd's tree over 9P and can do nothing that plain file I/O on the tree
// could not. The address is unix!PATH; -s, then $HUTCH, then the place where
// hutchd listens by default say it. See hutch(1).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// A command is a row of the table of subcommands.
type command struct {
	name, args, doc string
	run             func(ctx context.Context, args []string) error
	signals         bool // takes signals itself
}

func commands() []command {
	return []command{
		{"demo", "", "build everything, bring up a service, and show what it does", demo, false},
		{"run", "[-image I] [-profile P] CMD…", "run a command in a sandbox made for it", run, true},
		{"exec", "VM CMD…", "run a command in a running VM", execIn, true},
		{"ps", "", "list the VMs and what they run", ps, false},
		{"calls", "VM", "print what a VM's agent asks, as it asks", calls, false},
		{"bench", "[-driver D] [-run WORD]", "measure a service, and print a table and JSON", bench, false},
		{"9p", "VERB PATH", "ls, read, write, rdwr, mkdir or rm a file of the tree", ninepFile, false},
	}
}

// address is where hutchd listens.
var address = flag.String("s", os.Getenv("HUTCH"), "`address` of hutchd, unix!PATH")

func main() {
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() == 0 {
		usage()
		os.Exit(2)
	}
	if flag.Arg(0) == "help" {
		flag.CommandLine.SetOutput(os.Stdout)
		usage()
		return
	}
	for _, c := range commands() {
		if c.name == flag.Arg(0) {
			os.Exit(status(call(c, flag.Args()[1:])))
		}
	}
	fmt.Fprintf(os.Stderr, "hutch: unknown command %q; hutch alone lists them\n", flag.Arg(0))
	os.Exit(2)
}

func call(c command, args []string) error {
	ctx, stop := context.WithCancel(context.Background())
	if !c.signals {
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}
	defer stop()
	return c.run(ctx, args)
}

func usage() {
	var b strings.Builder
	b.WriteString("usage: hutch [-s unix!PATH] COMMAND [ARGUMENTS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-34s %s\n", c.name+" "+c.args, c.doc)
	}
	b.WriteString("\nThe service is hutchd; start it first. The manuals are hutch(1), hutch(4).\n")
	fmt.Fprint(flag.CommandLine.Output(), b.String())
}
