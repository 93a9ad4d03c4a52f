package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// An exit is the status that a command ended with: its own, not an error of ours.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// A misuse is an error of whoever typed the command: how it is to be used.
type misuse string

func (m misuse) Error() string { return "usage: " + string(m) }

// misused is what was wrong with how the command of this name was typed.
func misused(name, what string) error {
	return misuse(lookup(name).usage() + "\nhutch: " + what)
}

// A verdict is how a command ended that did not end by itself, or why it did
// not start.
type verdict struct {
	text   string
	status int   // what shells make of it
	cause  error // nil: there is no other
}

func (v verdict) Error() string { return v.text }
func (v verdict) Unwrap() error { return v.cause }

// unset is a command that cannot start as it is wanted.
func unset(err error) error { return verdict{plainText(err), 126, err} }

// unfound is a command that does not start, since there is no such program
// or for another reason.
func unfound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return verdict{plainText(err), 127, err}
	}
	return unset(err)
}

// errDisconnected is why nobody can tell us the end of a command.
var errDisconnected = verdict{"connection to hutchd lost: the command may run on", ownFailure, nil}

// plainText is the text of err without the system call that failed here.
func plainText(err error) string {
	text := fs.Text(err)
	var file *os.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Op+" "+file.Path+": ", file.Path+": ", 1)
	}
	var dialed *net.OpError
	var number syscall.Errno
	if errors.As(err, &dialed) && dialed.Addr != nil && errors.As(err, &number) {
		text = strings.Replace(text, dialed.Error(), dialed.Addr.String()+": "+number.Error(), 1)
	}
	return text
}

// ownFailure is the status where hutch itself fails, and the status of a command that it
// runs is expected; docker has the same.
const ownFailure = 125

// status prints err and returns the status to exit with. runsOther says that the status of
// a command in a VM is expected.
func status(err error, runsOther bool) int {
	var code exit
	var sig signaled
	var wrong misuse
	var ended verdict
	switch {
	case errors.As(err, &sig):
		sig.die()
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, wrong.Error())
		if runsOther {
			return ownFailure
		}
		return 2
	case errors.As(err, &ended):
		fmt.Fprintf(os.Stderr, "hutch: %s\n", ended)
		return ended.status
	case errors.Is(err, context.Canceled):
		return 130
	}
	fmt.Fprintf(os.Stderr, "hutch: %s\n", plainText(err))
	if runsOther {
		return ownFailure
	}
	return 1
}

// A signaled is the signal that ended the command.
type signaled syscall.Signal

func (s signaled) Error() string { return unix.SignalName(syscall.Signal(s)) }

// killed is the verdict on a command that ended as how tells, for the reason why.
func killed(why string, how error) error {
	status := 0
	switch how := how.(type) {
	case exit:
		status = int(how)
	case signaled:
		status = 128 + int(how)
	}
	return verdict{why, status, nil}
}

// whyEnded returns what a line of wait says behind a word, if it has that: vm is why the
// VM ended, oom why the command was killed.
func whyEnded(line, word string) string {
	_, why, ended := strings.Cut(strings.TrimSpace(line), " "+word+" ")
	if !ended {
		return ""
	}
	words, err := fs.LineWords(why, -1)
	if err != nil {
		return why
	}
	return strings.Join(words, " ")
}

// end returns how the command ended: nil, its exit status, or its signal.
func end(line string) error {
	word, _, _ := strings.Cut(line, " ")
	if code, err := strconv.Atoi(word); err == nil {
		if code == 0 {
			return nil
		}
		return exit(code)
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(word, "signal")); err == nil { // a real-time signal, which has no name
		return exit(128 + n)
	}
	if sig := unix.SignalNum(word); sig != 0 {
		return signaled(sig)
	}
	return fmt.Errorf("%w: the command ended: %s", fs.ErrIO, line)
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
