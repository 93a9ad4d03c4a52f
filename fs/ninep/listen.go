package ninep

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"hutch/fs"
)

// maxSocketPath is the longest path of a unix socket that every system takes.
const maxSocketPath = 103

// SplitAddr takes an address apart: unix!PATH or tcp!HOST!PORT.
func SplitAddr(addr string) (network, address string, err error) {
	network, rest, _ := strings.Cut(addr, "!")
	switch {
	case network == "unix" && rest != "":
		if len(rest) > maxSocketPath {
			return "", "", fmt.Errorf("%w: %s: a socket's path has at most %d bytes", fs.ErrInvalid, rest, maxSocketPath)
		}
		return network, rest, nil
	case network == "tcp" && strings.Count(rest, "!") == 1:
		host, port, _ := strings.Cut(rest, "!")
		return network, net.JoinHostPort(host, port), nil
	}
	return "", "", fmt.Errorf("%w: address %q: want unix!PATH or tcp!HOST!PORT", fs.ErrInvalid, addr)
}

// Listen listens on unix!PATH, a socket for its owner alone, in a folder that
// is made if need be; or on tcp!HOST!PORT, where HOST must be the loopback,
// as TCP tells nothing of the peer. A socket that a dead server left behind
// is replaced; where one answers, Listen fails with fs.ErrBusy.
func Listen(addr string) (net.Listener, error) {
	network, address, err := SplitAddr(addr)
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		return listenLoopback(address)
	}
	return listenUnix(address)
}

func listenLoopback(address string) (net.Listener, error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	if !a.IP.IsLoopback() {
		return nil, fmt.Errorf("%w: %s is not the loopback: anyone could connect", fs.ErrInvalid, address)
	}
	return net.ListenTCP("tcp", a)
}

func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// removeStale removes a socket on which nobody answers.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%w: %s is there and not a socket", fs.ErrExist, path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("%w: a server answers on %s", fs.ErrBusy, path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", fs.ErrBusy, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// clientUID returns the user of the process that connected, as far as the kernel
// tells.
func clientUID(c net.Conn) uint32 {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fs.NoUID
	}
	uid := fs.NoUID
	if raw, err := u.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if id, err := peerUID(int(fd)); err == nil {
				uid = id
			}
		})
	}
	return uid
}

// PeerCheck lets in who connects to a unix socket as this process's user or
// as root, and who comes over the loopback.
func PeerCheck(c net.Conn) error {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		return nil
	}
	uid := clientUID(c)
	if uid == fs.NoUID {
		return fmt.Errorf("%w: unknown peer %v", fs.ErrPermission, c.RemoteAddr())
	}
	if uid != 0 && uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%w: peer is user %d", fs.ErrPermission, uid)
	}
	return nil
}
