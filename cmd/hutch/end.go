package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// A signaled is the signal that ended the command.
type signaled syscall.Signal

func (s signaled) Error() string { return unix.SignalName(syscall.Signal(s)) }

// lost is the verdict on a command that ended as how tells, since the VM of
// directory vm ended under it.
func lost(vm, why string, how error) error {
	status := 0
	switch how := how.(type) {
	case exit:
		status = int(how)
	case signaled:
		status = 128 + int(how)
	}
	return verdict{strings.Replace(vm, "/", " ", 1) + ": " + why, status}
}

// machineEnd returns what a line of wait says of why the VM ended, if it did.
func machineEnd(line string) string {
	_, why, ended := strings.Cut(strings.TrimSpace(line), " vm ")
	if !ended {
		return ""
	}
	if text, err := strconv.Unquote(why); err == nil {
		return text
	}
	words, err := fs.Words(why)
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
