package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs"
)

// A session is a command in a VM with our standard files.
type session struct {
	c   *tree
	vm  string // the VM's directory
	dir string // the exec's directory
	ctl *file
	tty bool

	timeout    string
	interrupts interrupts
	cancel     context.CancelCauseFunc
	deaf       atomic.Bool // the guest has not heard of a signal in time
}

// errUnheeded is why a session ends at the third interrupt.
var errUnheeded = errors.New("the command does nothing about interrupts: ended at the third")

// execute runs a command in the VM of directory vm as if it were here: its
// input, output, terminal and signals are ours, and we end as it does.
func execute(ctx context.Context, c *tree, vm string, words []string, o *options) error {
	messages := o.messages()
	if o.detach {
		return detached(c, vm, words, o, messages)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{c: c, vm: vm, cancel: cancel, tty: o.onTerminal(), timeout: o.timeout}
	s.interrupts = interrupts{now: time.Now, end: func() { cancel(errUnheeded) }}
	ctl, n, err := clone(c, path.Join(vm, "exec"))
	if err != nil {
		return err
	}
	defer func() {
		if !s.deaf.Load() { // else the connection's end closes it
			ctl.Close()
		}
	}()
	s.ctl, s.dir = ctl, path.Join(vm, "exec", n)
	for _, m := range messages {
		if err := tell(ctl, m); err != nil {
			return unset(err)
		}
	}
	if s.tty {
		restore, err := s.terminal()
		if err != nil {
			return err
		}
		defer restore()
	}
	defer s.forward()()
	if err := tell(ctl, execMessage(words)); err != nil {
		return unfound(err)
	}
	o.began = true
	return s.attend(ctx)
}

func execMessage(words []string) string { return "exec " + fs.QuoteAll(words) }

// attend copies the command's files until it ends, or the session does.
func (s *session) attend(ctx context.Context) error {
	go s.input(ctx)
	var line strings.Builder
	err := copyStreams(ctx, s.c, s.dir, os.O_RDONLY, map[string]io.Writer{"stdout": s.screen(), "stderr": os.Stderr, "wait": &line})
	switch cause := context.Cause(ctx); {
	case cause == errUnheeded:
		s.say(cause)
		return signaled(syscall.SIGINT)
	case cause != nil:
		return cause
	}
	if why := whyEnded(line.String(), "vm"); why != "" {
		return killed(strings.Replace(s.vm, "/", " ", 1)+": "+why, end(line.String()))
	}
	if why := whyEnded(line.String(), "oom"); why != "" {
		return killed(why, end(line.String()))
	}
	if errors.Is(err, errLost) {
		return errDisconnected
	} else if err != nil {
		return err
	}
	if strings.HasSuffix(strings.TrimSpace(line.String()), " timeout") {
		return verdict{"timed out after " + s.timeout, 124, nil}
	}
	return end(line.String())
}

// say prints a line of ours where the command has the terminal.
func (s *session) say(what error) {
	end := "\n"
	if s.tty {
		end = "\r\n"
	}
	fmt.Fprint(os.Stderr, "hutch: ", what, end)
}

// screen is where the command's standard output goes.
func (s *session) screen() io.Writer {
	if !s.tty {
		return os.Stdout
	}
	return io.MultiWriter(witness(s.interrupts.printed), os.Stdout)
}

// keys is where its standard input comes from.
func (s *session) keys() io.Reader {
	if !s.tty {
		return os.Stdin
	}
	return io.TeeReader(os.Stdin, witness(s.interrupts.typed))
}

// input copies our standard input to the command, and ends it there. It is
// not waited for: a read of a terminal cannot be called back.
func (s *session) input(ctx context.Context) {
	f, err := s.c.open(path.Join(s.dir, "stdin"), os.O_WRONLY)
	if err != nil {
		return
	}
	defer f.closeWith(ctx)()
	io.Copy(f, s.keys())
}

// detached starts a command that stays until it is removed, and prints the
// VM's name and its.
func detached(c *tree, vm string, words []string, o *options, messages []string) error {
	dir := ""
	for n := lastDetached(c, vm) + 1; ; n++ {
		dir = path.Join(vm, "exec", detachedName(n))
		err := c.mkdir(dir, 0o755)
		if err == nil {
			break
		}
		if !fs.Is(err, fs.ErrExist) {
			return err
		}
	}
	if o.tty {
		messages = append(messages, usualSize)
	}
	if err := ready(c, dir, messages...); err != nil {
		return unset(err)
	}
	if err := ready(c, dir, execMessage(words)); err != nil {
		return unfound(err)
	}
	o.began = true
	writeFile(c, path.Join(dir, "ctl"), "eof\n") // one that has ended already needs none
	_, err := fmt.Println(path.Base(vm), path.Base(dir))
	return err
}

func detachedName(n int) string { return fmt.Sprintf("d%d", n) }

// lastDetached returns the number of the detached command that was begun last
// of those that are there: each has one more than the others. 0: there is none.
func lastDetached(c *tree, vm string) int {
	last := 0
	names, _ := folders(c, path.Join(vm, "exec"))
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "d")); err == nil && n > last && name == detachedName(n) {
			last = n
		}
	}
	return last
}
