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

	"hutch/relay/vsock"
)

// The ports that a guest dials.
const (
	Agent = 5000
	Share = 5001 // of virtual machines
	MCP   = 5002
	Proxy = 5003
)

// ProxyAddress is where the proxy is for the guest's programs, if it has one:
// if NetVariable, in the environment of its init, is NetProxy.
const (
	ProxyAddress = "127.0.0.1:3128"
	NetVariable  = "HUTCH_NET"
	NetProxy     = "host-proxy"
)

// Folder is where the host's sockets are, unless $HUTCH_PORTS says otherwise.
const Folder = "/run/hutch"

// Dial connects to port n of the host: a unix socket that the host has put
// into the guest or, in a virtual machine that has none, the host's on AF_VSOCK.
func Dial(ctx context.Context, n uint32) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", Path(n))
	if errors.Is(err, fs.ErrNotExist) && vsock.InGuest() {
		return vsock.Dial(ctx, vsock.Host, n)
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

// Path returns the path of the socket of port n.
func Path(n uint32) string {
	dir := os.Getenv("HUTCH_PORTS")
	if dir == "" {
		dir = Folder
	}
	return filepath.Join(dir, strconv.FormatUint(uint64(n), 10))
}
