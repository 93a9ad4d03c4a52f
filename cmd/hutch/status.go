package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"hutch/fs/node"
)

// An exit is the status that a command ended with: its own, not an error of ours.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// A misuse is an error of whoever typed the command: how it is to be used.
type misuse string

func (m misuse) Error() string { return "usage: " + string(m) }

// An unstarted is why the command did not start.
type unstarted struct{ error }

func (u unstarted) Unwrap() error { return u.error }

// status is what shells make of it.
func (u unstarted) status() int {
	if errors.Is(u, node.ErrNotExist) {
		return 127
	}
	return 126
}

// status prints err and returns the status to exit with.
func status(err error) int {
	var code exit
	var sig signaled
	var wrong misuse
	var not unstarted
	switch {
	case errors.As(err, &sig):
		sig.die()
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &wrong):
		fmt.Fprintln(os.Stderr, wrong.Error())
		return 2
	case errors.Is(err, context.Canceled):
		return 130
	}
	fmt.Fprintf(os.Stderr, "hutch: %s\n", node.Text(err))
	if errors.As(err, &not) {
		return not.status()
	}
	return 1
}
