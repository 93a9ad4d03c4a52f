// Package port dials the host's ports from inside a guest: 5000, where the
// agent serves its tree, 5001, where the host serves folders to be mounted,
// 5002, which takes MCP frames, and 5003, its proxy.
package port

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"hutch/relay/vsock"
)

// The ports that a guest dials.
const (
	Agent = 5000
	Share = 5001 // of virtual machines
	MCP   = 5002
	Proxy = 5003
)

// Roots says whether a port is root's, who is the guest's init: the agent's and
// the folders' are. Every user of the guest may have the others.
func Roots(n uint32) bool { return n == Agent || n == Share }

// NotRoot says why a connection to one of these is refused.
const NotRoot = "it is root's, and who dialled it is not root"

// Mode returns the mode of a port's socket.
func Mode(n uint32) fs.FileMode {
	if Roots(n) {
		return 0o600
	}
	return 0o666
}

// ProxyAddress is where the proxy is for the guest's programs, if it has one:
// if NetVariable, in the environment of its init, is NetProxy.
const (
	ProxyAddress = "127.0.0.1:3128"
	NetVariable  = "HUTCH_NET"
	NetProxy     = "host-proxy"
)

// Folder is where the host's sockets are, unless $HUTCH_PORTS says otherwise.
const Folder = "/run/hutch"

// Word begins the word of the kernel's command line that tells a virtual
// machine that its host's ports are on AF_VSOCK. What follows is the number
// that Agent has there, the others come after it: hosts of several services
// have one space of numbers for them all.
const Word = "hutch.vsock="

// Dial connects to port n of the host: a unix socket that the host, or a
// process of the guest's init, has put into the guest or, where there is none
// and the kernel was told Word, the host's on AF_VSOCK. That has no modes: what
// is root's is dialled from a reserved port, by which the host knows root.
func Dial(ctx context.Context, n uint32) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", Path(n))
	if errors.Is(err, fs.ErrNotExist) {
		if first, ok := told(); ok {
			dial := vsock.Dial
			if Roots(n) {
				dial = vsock.DialReserved
			}
			return dial(ctx, vsock.Host, first+n-Agent)
		}
	}
	if err != nil {
		return nil, err
	}
	w, err := watch(c.(*net.UnixConn))
	if err != nil {
		c.Close()
		return nil, err
	}
	return w, nil
}

// told returns what the kernel was told.
var told = sync.OnceValues(func() (uint32, bool) {
	line, _ := os.ReadFile("/proc/cmdline")
	return parseWord(string(line))
})

func parseWord(line string) (uint32, bool) {
	for _, w := range strings.Fields(line) {
		if text, ok := strings.CutPrefix(w, Word); ok {
			n, err := strconv.ParseUint(text, 10, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
}

// Path returns the path of the socket of port n.
func Path(n uint32) string {
	dir := os.Getenv("HUTCH_PORTS")
	if dir == "" {
		dir = Folder
	}
	return filepath.Join(dir, strconv.FormatUint(uint64(n), 10))
}
