//go:build linux

package gvisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"hutch/fs/accept"
	"hutch/relay/port"
	"hutch/vmm"
)

// Ports are the sockets of one machine's guest. What connects to them is that
// guest: the folder they are in is mounted nowhere else.
type ports struct {
	dir       string
	end       context.CancelFunc // of listening
	accepting sync.WaitGroup
}

// listen makes a socket for each port that the guest may dial, in the place of
// those that an earlier process left. With an error there are none.
func listen(s vmm.Spec) (*ports, error) {
	ctx, end := context.WithCancel(context.Background())
	p := &ports{dir: s.Ports, end: end}
	dir, conn := s.Ports, s.Conn
	// Users of the guest look in here; on the host, VMs' folders are closed.
	if err := os.Chmod(dir, 0o755); err != nil {
		return p, err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return p, err
	}
	defer folder.Close()
	for _, port := range vmm.Ports {
		os.Remove(filepath.Join(dir, strconv.Itoa(int(port))))
	}
	for _, n := range s.Listen() {
		l, err := listenIn(folder, strconv.Itoa(int(n)), port.Mode(n))
		if err != nil {
			p.close()
			return p, fmt.Errorf("port %d: %w", n, err)
		}
		p.accepting.Go(func() { accept.Serve(ctx, l, func(c net.Conn) { conn(n, c) }, nil) })
	}
	return p, nil
}

// listenIn listens on a socket in folder, named by a descriptor: a socket's
// path may have 107 bytes.
func listenIn(folder *os.File, name string, mode os.FileMode) (*net.UnixListener, error) {
	path := filepath.Join(folder.Name(), name)
	short := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// close ends listening. The sockets stay, for the next process to replace.
func (p *ports) close() {
	p.end()
	p.accepting.Wait()
}

// remove ends listening and removes the sockets.
func (p *ports) remove() {
	p.close()
	for _, port := range vmm.Ports {
		os.Remove(filepath.Join(p.dir, strconv.Itoa(int(port))))
	}
}
