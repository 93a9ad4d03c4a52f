// Package ports is the helper process of a virtual machine's init (relay/boot): it
// connects the guest with the ports of its host, and mounts the host's folders.
//
// The ports are unix sockets in /run/hutch, as in a sandbox without a kernel
// of its own. What connects to them goes over the serial port called "hutch"
// that the host has given the machine (relay/line). Without one the sockets
// are taken to be there already, or the ports to be on AF_VSOCK.
//
// The folders are FUSE file systems on top of 9P, over port 5001. They need
// no more of the guest's kernel than FUSE, and go on after the connection was
// lost, as it is by every suspension of the machine.
package ports

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"hutch/fs/accept"
	"hutch/fs/duplex"
	"hutch/fs/fuse"
	"hutch/relay/boot"
	"hutch/relay/guest"
	"hutch/relay/port"
)

// all are the ports that processes of the guest may dial.
var all = []uint32{port.Agent, port.Share, port.MCP, port.Proxy}

// Run connects the ports and mounts shares until ctx is done. It calls ready
// when all is there.
func Run(ctx context.Context, shares []boot.Share, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel() // before the Wait above
	device, err := openLine()
	if err != nil {
		return err
	}
	if device != nil {
		work.Go(func() {
			if err := device.Run(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "hutch: line to the host:", err)
			}
			cancel()
		})
		for _, n := range all {
			l, err := listen(port.Path(n), port.Mode(n))
			if err != nil {
				return err
			}
			work.Go(func() { forward(ctx, l, n, device.Dial) })
		}
	}
	host := guest.NewHost()
	defer host.Close()
	work.Go(func() { attach(ctx, host) })
	stop := context.AfterFunc(ctx, func() { host.Close() }) // else it waits for the host
	if err := host.Ready(ctx); err != nil {
		return err
	}
	for _, s := range shares {
		m, err := fuse.Mount(s.Path, host.Share(s.Name), options(s))
		if err != nil {
			return err
		}
		defer m.Close()
	}
	stop()
	ready()
	<-ctx.Done()
	return nil
}

// listen listens on a socket to which those may connect whom mode lets.
func listen(path string, mode os.FileMode) (net.Listener, error) {
	os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// forward connects what connects to l with the host's port n.
func forward(ctx context.Context, l net.Listener, n uint32, dial func(context.Context, uint32) (net.Conn, error)) {
	var conns sync.WaitGroup
	defer conns.Wait()
	accept.Serve(ctx, l, func(c net.Conn) {
		conns.Go(func() {
			defer c.Close()
			far, err := dial(ctx, n)
			if err != nil {
				return
			}
			duplex.Join(ctx, c, far)
		})
	}, nil)
}
