package main

import "golang.org/x/sys/unix"

// flushInput drops what was typed at a terminal and not read.
func flushInput(fd int) { unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) } // FREAD
