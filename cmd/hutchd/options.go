package main

import (
	"os"
	"path/filepath"

	"hutch/fs/ninep"
)

// options are what the flags say.
type options struct {
	state, mount, rawMount, listen, bin string

	allowOther bool // other users may use the mounts
	strict     bool // aggd and locald are confined wholly, or there is no service
	debug      bool
	mustMount  bool // -mount was said: without a mount there is no service
}

// defaults returns the options for this user.
func defaults() options {
	o := options{state: "/var/lib/hutch", mount: "/mnt/hutch", listen: ninep.DefaultAddress()}
	if os.Getuid() != 0 {
		home, _ := os.UserHomeDir()
		o.state = filepath.Join(xdg("XDG_DATA_HOME", filepath.Join(home, ".local", "share")), "hutch")
		o.mount = filepath.Join(home, "hutch")
	}
	if exe, err := os.Executable(); err == nil {
		o.bin = filepath.Dir(exe)
	}
	return o
}

func xdg(variable, otherwise string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}
