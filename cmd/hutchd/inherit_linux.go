package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepInherited keeps to this process what it was started with open beside its
// standard files: what it starts, machines that outlive it among it, would
// have the caller's files.
func keepInherited() {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
