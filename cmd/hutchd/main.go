// Hutchd serves sandbox VMs as a tree of files, over 9P and FUSE.
//
// Usage:
//
//	hutchd [-state DIR] [-mount DIR] [-rawmount DIR] [-allow-other] [-listen unix!PATH] [-bin DIR] [-corp DIR] [-strict] [-require-limits] [-debug] [-quiet] [-doctor]
//
// The defaults for root are /var/lib/hutch, /mnt/hutch and unix!/run/hutch/9p;
// for others hutch in the XDG data folder, ~/hutch, and hutch/9p in the XDG
// runtime folder. -mount none serves 9P only. -rawmount mounts the tree once
// more, with links of guests as they are and never followed; -allow-other lets
// other users use the mounts. -bin is the folder of guest,
// runsc, aggd and locald: beside hutchd if not said. -corp is the folder of
// corp's signed part of profiles, /etc/hutch/corp if there is one. -strict ends it where this
// machine cannot confine aggd and locald wholly; -require-limits starts no VM that cannot be
// held to its limits. -quiet keeps the log off standard error.
// -doctor says what the machine lacks instead. See hutchd(8).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"hutch/fs/ninep"
	"hutch/profiles"
)

func main() {
	keepInherited()
	def := defaults()
	var o options
	flag.StringVar(&o.state, "state", def.state, "`folder` of the service's state")
	flag.StringVar(&o.mount, "mount", def.mount, "`folder` to mount the tree on, or none")
	flag.StringVar(&o.rawMount, "rawmount", "", "`folder` to mount the tree on once more, with the guests' links by their own text")
	flag.BoolVar(&o.allowOther, "allow-other", false, "let other users use the mounts, as modes and owners allow")
	flag.StringVar(&o.listen, "listen", def.listen, "`address` to serve 9P on, unix!PATH or tcp!127.0.0.1!PORT")
	flag.StringVar(&o.bin, "bin", def.bin, "`folder` of guest, runsc, aggd and locald")
	flag.StringVar(&o.corp, "corp", def.corp, "`folder` of corp's signed part of profiles")
	flag.BoolVar(&o.strict, "strict", false, "end if this machine cannot confine aggd and locald wholly")
	flag.BoolVar(&o.requireLimits, "require-limits", false, "start no VM that cannot be held to the limits of its config")
	flag.BoolVar(&o.debug, "debug", false, "log more")
	flag.BoolVar(&o.quiet, "quiet", false, "log to the state folder alone, not to standard error")
	flag.BoolVar(&o.doctor, "doctor", false, "look the machine over, say what it lacks and what to do about it, and end")
	flag.Usage = usage
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { o.mustMount = o.mustMount || f.Name == "mount" })
	if flag.NArg() > 0 {
		usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.doctor {
		if !examine(ctx, o) {
			os.Exit(1)
		}
		return
	}
	if err := serve(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "hutchd: %v\n", err)
		os.Exit(1)
	}
}

// keepInherited keeps to this process what it was started with open beside its
// standard files: what it starts, machines that outlive it among it, would
// have the caller's files. Where there is no /proc, machines are no processes.
func keepInherited() {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

func usage() {
	fmt.Fprintf(os.Stderr, "usage: hutchd [-state DIR] [-mount DIR|none] [-rawmount DIR] [-allow-other] [-listen unix!PATH] [-bin DIR] [-corp DIR] [-strict] [-require-limits] [-debug] [-quiet] [-doctor]\n\n")
	flag.PrintDefaults()
}

// options are what the flags say.
type options struct {
	state, mount, rawMount, listen, bin, corp string

	allowOther bool // other users may use the mounts
	strict     bool // aggd and locald are confined wholly, or there is no service
	debug      bool

	requireLimits bool // a VM that cannot be held to its limits does not start
	quiet         bool // no log on standard error
	doctor        bool // look the machine over instead of serving
	mustMount     bool // -mount was said: without a mount there is no service
}

// defaults returns the options for this user.
func defaults() options {
	o := options{state: "/var/lib/hutch", mount: "/mnt/hutch", listen: ninep.DefaultAddress(), corp: profiles.CorpFolder}
	if os.Getuid() != 0 {
		home, _ := os.UserHomeDir()
		o.state = filepath.Join(xdg("XDG_DATA_HOME", filepath.Join(home, ".local", "share")), "hutch")
		o.mount = filepath.Join(home, "hutch")
	}
	if exe, err := os.Executable(); err == nil {
		o.bin = filepath.Dir(exe)
	}
	return o
}

func xdg(variable, otherwise string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}
