package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal gives the command a terminal like ours, and puts ours in raw mode.
func (s *session) terminal() (restore func(), err error) {
	if !term.IsTerminal(1) {
		err = tell(s.ctl, usualSize)
	} else {
		err = s.size()
	}
	if err != nil || !term.IsTerminal(0) {
		return func() {}, err
	}
	old, err := term.MakeRaw(0)
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(0, old) }, nil
}

// usualSize is the size of a terminal of which nobody has said one.
const usualSize = "tty 24 80"

func (s *session) size() error {
	cols, rows, err := term.GetSize(1)
	switch {
	case err != nil:
		return err
	case rows == 0 || cols == 0: // a new pty has none
		return tell(s.ctl, usualSize)
	}
	return tell(s.ctl, fmt.Sprintf("tty %d %d", rows, cols))
}

// forward passes our signals to the command, until the function it returns
// is called.
func (s *session) forward() func() {
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	var done sync.WaitGroup
	done.Go(func() {
		for sig := range signals {
			s.pass(sig.(syscall.Signal))
		}
	})
	return func() {
		signal.Stop(signals)
		close(signals)
		done.Wait()
	}
}

func (s *session) pass(sig syscall.Signal) {
	if sig == syscall.SIGWINCH {
		if s.tty && term.IsTerminal(1) {
			s.size()
		}
		return
	}
	heard := make(chan struct{})
	go func() { // ends with the connection at the latest
		defer close(heard)
		tell(s.ctl, "signal "+unix.SignalName(sig))
	}()
	select {
	case <-heard:
	case <-time.After(hearTime):
		if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
			s.deaf.Store(true)
			s.cancel(signaled(sig))
		}
	}
	switch sig {
	case syscall.SIGINT:
		s.interrupts.signal()
	case syscall.SIGHUP:
		s.hangUp()
	}
}

// hearTime is how long a guest has to hear of a signal. One that would end the command
// ends the session then.
const hearTime = 3 * time.Second

// lastWords is what a command has to end by itself once our terminal is gone.
const lastWords = 2 * time.Second

// hangUp ends the session soon: nobody is there to see its output any more.
func (s *session) hangUp() {
	time.AfterFunc(lastWords, func() { s.cancel(signaled(syscall.SIGHUP)) })
}
