package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"hutch/fs/ninep/client"
	"hutch/fs/node"
)

// run makes a sandbox, runs a command in it, and removes it. The sandbox is
// an anonymous VM: it goes with our connection, however we end.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hutch run", flag.ContinueOnError)
	image := flags.String("image", "", "`image` to start from; host if not said")
	profile := flags.String("profile", "", "`profile` of the sandbox; default if not said")
	if err := flags.Parse(args); err != nil {
		return exit(2)
	}
	if flags.NArg() == 0 {
		return misuse("hutch run [-image I] [-profile P] CMD…")
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctl, name, err := clone(c, "vm")
	if err != nil {
		return err
	}
	defer ctl.Close()
	for _, m := range [][2]string{{"set image", *image}, {"set profile", *profile}} {
		if m[1] != "" {
			if err := tell(c, ctl, path.Join("vm", name), m[0]+" "+node.Quote(m[1])); err != nil {
				return err
			}
		}
	}
	if err := tell(c, ctl, path.Join("vm", name), "start"); err != nil {
		return err
	}
	err = execute(ctx, c, name, flags.Args())
	if kerr := tell(c, ctl, path.Join("vm", name), "kill"); err == nil {
		err = kerr
	}
	return err
}

// execIn runs a command in a VM that is there.
func execIn(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return misuse("hutch exec VM CMD…")
	}
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return execute(ctx, c, args[0], args[1:])
}

// clone makes an anonymous object of dir. It lives as long as the file.
func clone(c *client.Conn, dir string) (*client.File, string, error) {
	f, err := c.Open(path.Join(dir, "clone"), os.O_RDWR)
	if err != nil {
		return nil, "", explain(c, path.Join(dir, "clone"), err)
	}
	p := make([]byte, 32)
	n, err := f.ReadAt(p, 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, "", err
	}
	return f, strings.TrimSpace(string(p[:n])), nil
}

// tell writes a message to an open ctl of the object in dir.
func tell(c *client.Conn, ctl *client.File, dir, message string) error {
	if _, err := ctl.WriteAt([]byte(message+"\n"), 0); err != nil {
		return explain(c, path.Join(dir, "ctl"), err)
	}
	return nil
}

// A session is a command in a VM with our standard files.
type session struct {
	c   *client.Conn
	vm  string // the VM's directory
	dir string // the exec's directory
	ctl *client.File
	tty bool
}

// execute runs a command in a VM as if it were here: its input, output,
// terminal and signals are ours, and we end as it does.
func execute(ctx context.Context, c *client.Conn, vm string, words []string) error {
	s := &session{c: c, vm: path.Join("vm", vm)}
	ctl, n, err := clone(c, path.Join(s.vm, "exec"))
	if err != nil {
		return err
	}
	defer ctl.Close()
	s.ctl, s.dir = ctl, path.Join(s.vm, "exec", n)
	s.tty = term.IsTerminal(0) && term.IsTerminal(1)
	if s.tty {
		restore, err := s.terminal()
		if err != nil {
			return err
		}
		defer restore()
	}
	defer s.forward()()
	message := "exec"
	for _, w := range words {
		message += " " + node.Quote(w)
	}
	if err := tell(c, ctl, s.vm, message); err != nil {
		return unstarted{err}
	}
	return s.attend(ctx)
}

// attend copies the command's files until it ends.
func (s *session) attend(ctx context.Context) error {
	go s.input()
	var copying sync.WaitGroup
	errs := make([]error, 2)
	for i, out := range []struct {
		name string
		w    io.Writer
	}{{"stdout", os.Stdout}, {"stderr", os.Stderr}} {
		copying.Add(1)
		go func() {
			defer copying.Done()
			errs[i] = copyOut(ctx, s.c, out.w, path.Join(s.dir, out.name))
		}()
	}
	copying.Wait()
	line, err := readFile(s.c, path.Join(s.dir, "wait"))
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return end(line)
}

// input copies our standard input to the command, and ends it there. It is
// not waited for: a read of a terminal cannot be called back.
func (s *session) input() {
	f, err := s.c.Open(path.Join(s.dir, "stdin"), os.O_WRONLY)
	if err != nil {
		return
	}
	io.Copy(f, os.Stdin)
	f.Close()
}

// terminal gives the command a terminal like ours, and puts ours in raw mode.
func (s *session) terminal() (restore func(), err error) {
	if err := s.size(); err != nil {
		return nil, err
	}
	old, err := term.MakeRaw(0)
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(0, old) }, nil
}

func (s *session) size() error {
	cols, rows, err := term.GetSize(1)
	if err != nil {
		return err
	}
	return tell(s.c, s.ctl, s.vm, fmt.Sprintf("tty %d %d", rows, cols))
}

// forward passes our signals to the command, until the function it returns
// is called.
func (s *session) forward() func() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		for sig := range signals {
			s.pass(sig.(syscall.Signal))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		done.Wait()
	}
}

func (s *session) pass(sig syscall.Signal) {
	if sig == syscall.SIGWINCH {
		if s.tty {
			s.size()
		}
		return
	}
	tell(s.c, s.ctl, s.vm, "signal "+signalNames[sig])
}

var signalNames = map[syscall.Signal]string{
	syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT",
	syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2", syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV",
	syscall.SIGABRT: "ABRT", syscall.SIGPIPE: "PIPE", syscall.SIGALRM: "ALRM", syscall.SIGBUS: "BUS",
	syscall.SIGFPE: "FPE", syscall.SIGILL: "ILL", syscall.SIGTRAP: "TRAP",
}

// A signaled is the signal that ended the command.
type signaled syscall.Signal

func (s signaled) Error() string { return "SIG" + signalNames[syscall.Signal(s)] }

// end returns how the command ended: nil, its exit status, or its signal.
func end(line string) error {
	word, _, _ := strings.Cut(line, " ")
	if code, err := strconv.Atoi(word); err == nil {
		if code == 0 {
			return nil
		}
		return exit(code)
	}
	for sig, name := range signalNames {
		if "SIG"+name == word {
			return signaled(sig)
		}
	}
	return fmt.Errorf("%w: the command ended: %s", node.ErrIO, line)
}

// die ends this process by the signal that ended the command, or with the
// status that shells make of it, where dying so would leave a core.
func (s signaled) die() {
	sig := syscall.Signal(s)
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM:
		signal.Reset(sig)
		syscall.Kill(os.Getpid(), sig)
		<-time.After(time.Second) // it may be another thread's to take
	}
	os.Exit(128 + int(sig))
}
