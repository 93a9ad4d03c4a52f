package duplex

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// Pair returns the two ends of a connection, the second as a file for another
// process. No process that is started meanwhile inherits either.
func Pair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	far := os.NewFile(uintptr(fds[1]), "socket")
	near, err := conn(os.NewFile(uintptr(fds[0]), "socket"))
	if err != nil {
		far.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// Conns returns the two ends of a connection of this process with itself.
func Conns() (near, far *net.UnixConn, err error) {
	near, f, err := Pair()
	if err != nil {
		return nil, nil, err
	}
	if far, err = conn(f); err != nil {
		near.Close()
		return nil, nil, err
	}
	return near, far, nil
}

// conn returns the connection that a socket is, and closes the file.
func conn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	return c.(*net.UnixConn), nil
}
