//go:build linux

package gvisor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"hutch/vmm"
)

// Ports are the sockets of one machine's guest. What connects to them is that
// guest: the folder they are in is mounted nowhere else.
type ports struct {
	dir       string
	listeners []*net.UnixListener
	accepting sync.WaitGroup
}

// listen makes a socket for each port that the guest may dial, in the place of
// those that an earlier process left. With an error there are none.
func listen(s vmm.Spec) (*ports, error) {
	p := &ports{dir: s.Ports}
	dir, conn := s.Ports, s.Conn
	// Any user of the guest may connect; on the host, VMs' folders are closed.
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
	for _, port := range s.Listen() {
		l, err := listenIn(folder, strconv.Itoa(int(port)))
		if err != nil {
			p.close()
			return p, fmt.Errorf("port %d: %w", port, err)
		}
		p.listeners = append(p.listeners, l)
		p.accepting.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conn(port, c)
			}
		})
	}
	return p, nil
}

// listenIn listens on a socket in folder, named by a descriptor: a socket's
// path may have 107 bytes.
func listenIn(folder *os.File, name string) (*net.UnixListener, error) {
	path := filepath.Join(folder.Name(), name)
	short := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// close ends listening. The sockets stay, for the next process to replace.
func (p *ports) close() {
	for _, l := range p.listeners {
		l.Close()
	}
	p.accepting.Wait()
}

// remove ends listening and removes the sockets.
func (p *ports) remove() {
	p.close()
	for _, port := range vmm.Ports {
		os.Remove(filepath.Join(p.dir, strconv.Itoa(int(port))))
	}
}
