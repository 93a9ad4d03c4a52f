package vsock

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"

	"github.com/mdlayher/socket"
	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"
)

// DialReserved connects as Dial does, but from a reserved port, which takes
// CAP_NET_BIND_SERVICE in the first of the guest's user namespaces.
func DialReserved(ctx context.Context, cid, port uint32) (net.Conn, error) {
	c, err := socket.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0, "vsock", nil)
	if err != nil {
		return nil, err
	}
	from, err := bindReserved(c)
	if err == nil {
		_, err = c.Connect(ctx, &unix.SockaddrVM{CID: cid, Port: port})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &bound{c, &vsock.Addr{ContextID: unix.VMADDR_CID_ANY, Port: from}, &vsock.Addr{ContextID: cid, Port: port}}, nil
}

// bindReserved binds c to a reserved port that is free. It is chosen by chance:
// what is left, at either end, of a connection that was lost has another.
func bindReserved(c *socket.Conn) (uint32, error) {
	const most = FirstOpen - 1 // 0 is left out
	err := error(unix.EADDRINUSE)
	first := rand.Uint32N(most)
	for i := uint32(0); i < most && errors.Is(err, unix.EADDRINUSE); i++ {
		port := 1 + (first+i)%most
		if err = c.Bind(&unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: port}); err == nil {
			return port, nil
		}
	}
	return 0, os.NewSyscallError("bind", err)
}

// bound is a connection from a port that was chosen.
type bound struct {
	*socket.Conn
	local, remote net.Addr
}

func (b *bound) LocalAddr() net.Addr  { return b.local }
func (b *bound) RemoteAddr() net.Addr { return b.remote }
