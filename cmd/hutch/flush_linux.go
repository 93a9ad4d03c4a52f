package main

import "golang.org/x/sys/unix"

// flushInput drops what was typed at a terminal and not read.
func flushInput(fd int) { unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
