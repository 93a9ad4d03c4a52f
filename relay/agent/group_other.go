//go:build !linux

package agent

import "syscall"

// start starts a program; ended is called once, from the reaper, when it ends.
func (r *reaper) start(path string, argv []string, attr *syscall.ProcAttr, ended func(exit)) (int, error) {
	return r.fork(path, argv, attr, ended)
}

func keepRoom() {}

// tasks returns 0: nobody tells.
func (r *reaper) tasks() int { return 0 }
