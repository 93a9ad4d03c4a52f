package main

import (
	"fmt"

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
