package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

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
	tell(s.ctl, "signal "+unix.SignalName(sig))
	switch sig {
	case syscall.SIGINT:
		s.interrupts.signal()
	case syscall.SIGHUP:
		s.hangUp()
	}
}

// lastWords is what a command has to end by itself once our terminal is gone.
const lastWords = 2 * time.Second

// hangUp ends the session soon: nobody is there to see its output any more.
func (s *session) hangUp() {
	time.AfterFunc(lastWords, func() { s.cancel(signaled(syscall.SIGHUP)) })
}
