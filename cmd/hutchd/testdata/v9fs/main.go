//go:build linux

// V9fs runs in a guest with a kernel that has a 9P client. "v9fs load FILE..."
// loads modules of it, "v9fs mount DIR OPTIONS" mounts what the host serves
// on port 5002.
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("v9fs: ")
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 1 && args[0] == "load":
		err = load(args[1:])
	case len(args) == 3 && args[0] == "mount":
		err = mount(args[1], args[2])
	default:
		log.Fatal("usage: v9fs load FILE... | mount DIR OPTIONS")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func load(files []string) error {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// mount gives the kernel a connection, which it keeps.
func mount(dir, options string) error {
	c, err := net.Dial("unix", "/run/hutch/5002")
	if err != nil {
		return err
	}
	f, err := c.(*net.UnixConn).File()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	options += fmt.Sprintf(",trans=fd,rfdno=%d,wfdno=%d", f.Fd(), f.Fd())
	return unix.Mount("hutch", dir, "9p", 0, options)
}
