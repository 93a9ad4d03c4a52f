//go:build linux

package qemu

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/relay/vsock"
	"hutch/vmm"
)

// Where the host has vhost-vsock, guests reach it on AF_VSOCK. A host has one
// space of context ids (CIDs) and one of ports there, for all who run machines
// on it.
//
// The kernel is the arbiter of CIDs: an open /dev/vhost-vsock is given one,
// unless anybody on the host has it. The file goes to QEMU, and with QEMU's end
// the CID is free again. So nothing is left of a CID when all processes were
// killed, and an adopted machine still has its own.
//
// Ports are listened on once for all machines of this process, from a number
// on that the driver's folder gives. A guest is told that number on its
// kernel's command line, and so has it for good: a machine that goes on, or is
// adopted, has the numbers that it began with.

// An exchange has the listeners of all machines.
type exchange struct {
	dir    string                             // the driver's
	device string                             // /dev/vhost-vsock
	assign func(f *os.File, cid uint32) error // of the device
	listen func(cid uint32, ports ...uint32) (*vsock.Switch, error)

	switchesMu sync.Mutex           // guards switches
	switches   map[uint32]*switched // by their first port
}

// switched are listeners, and how many machines use them.
type switched struct {
	*vsock.Switch
	users int
}

func newExchange(dir string) *exchange {
	return &exchange{
		dir: dir, device: "/dev/vhost-vsock", assign: setCID, listen: vsock.Listen,
		switches: make(map[uint32]*switched),
	}
}

// A wire is where a machine is on AF_VSOCK.
type wire struct {
	x      *exchange
	s      *vsock.Switch
	first  uint32 // the number of port 5000
	cid    uint32
	device *os.File // that has the CID, for QEMU; nil if that has it already

	connMu sync.Mutex // guards conn, and is held while it runs
	conn   func(port uint32, c net.Conn)
}

// plug returns a wire for a machine that begins, if first is 0, or goes on: it
// has the ports from first on again. Its CID is the one it had, if that is free,
// as it is not beside the machine that it was copied from. QEMU tells the guest
// of the new one when it goes on (a transport reset: the guest's driver reads
// its CID again and ends all its connections, which its programs dial anew).
func (x *exchange) plug(first, cid uint32) (*wire, error) {
	f, err := os.OpenFile(x.device, os.O_RDWR, 0) // also loads what AF_VSOCK needs
	if err != nil {
		return nil, err
	}
	w, err := x.join(first)
	if err == nil {
		w.device = f
		w.cid, err = allot(cid, func(cid uint32) error {
			if err := x.assign(f, cid); err != nil {
				return err
			}
			return w.s.Add(cid, w.take)
		})
	}
	if err != nil {
		f.Close()
		if w != nil {
			x.leave(w.first)
		}
		return nil, err
	}
	return w, nil
}

// adopt returns the wire of a machine that runs.
func (x *exchange) adopt(first, cid uint32) (*wire, error) {
	w, err := x.join(first)
	if err != nil {
		return nil, err
	}
	w.cid = cid
	if err := w.s.Add(cid, w.take); err != nil {
		x.leave(first)
		return nil, err
	}
	return w, nil
}

// CIDs are taken by chance: one that was given back is not soon another's. The
// low ones are left to people, who choose such.
const (
	firstCID = 1 << 16
	cids     = 1 << 30
	tries    = 100
)

// allot returns the CID that take has taken: wanted, unless that is 0 or not
// free, or any other.
func allot(wanted uint32, take func(cid uint32) error) (uint32, error) {
	var err error
	for range tries {
		cid := wanted
		if wanted = 0; cid == 0 {
			cid = firstCID + rand.Uint32N(cids)
		}
		err = take(cid)
		if err == nil {
			return cid, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return 0, fmt.Errorf("vsock context id: %w", err)
}

// setCID gives an open device a CID.
func setCID(f *os.File, cid uint32) error {
	const set = 0x4008af60 // VHOST_VSOCK_SET_GUEST_CID
	n := uint64(cid)
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, set, uintptr(unsafe.Pointer(&n)))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}

// The ports of services begin far from those that people choose, at a multiple
// of how many there are.
const (
	firstPorts = 1 << 20
	portGroups = 1 << 26
	portsEach  = vmm.PortProxy - vmm.PortAgent + 1
)

// join listens on the ports from first on or, if that is 0, where this driver
// does: should another service be there, on the next.
func (x *exchange) join(first uint32) (*wire, error) {
	x.switchesMu.Lock()
	defer x.switchesMu.Unlock()
	if first != 0 {
		return x.use(first)
	}
	h := fnv.New32a()
	h.Write([]byte(x.dir))
	var w *wire
	err := error(unix.EADDRINUSE)
	for i := uint32(0); i < tries && errors.Is(err, unix.EADDRINUSE); i++ {
		w, err = x.use(firstPorts + (h.Sum32()+i)%portGroups*portsEach)
	}
	return w, err
}

// use counts one more user of the ports from first on.
func (x *exchange) use(first uint32) (*wire, error) {
	s := x.switches[first]
	if s == nil {
		var list []uint32
		for i := range uint32(portsEach) {
			list = append(list, first+i)
		}
		l, err := x.listen(vsock.Host, list...)
		if err != nil {
			return nil, err
		}
		s = &switched{Switch: l}
		x.switches[first] = s
	}
	s.users++
	return &wire{x: x, s: s.Switch, first: first}, nil
}

// leave counts one user less. With the last one listening ends.
func (x *exchange) leave(first uint32) {
	x.switchesMu.Lock()
	defer x.switchesMu.Unlock()
	s := x.switches[first]
	if s.users--; s.users == 0 {
		delete(x.switches, first)
		s.Close()
	}
}

// begin has conn take the machine's connections. Those that come before are
// refused: the guest dials again.
func (w *wire) begin(conn func(port uint32, c net.Conn)) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	w.conn = conn
}

func (w *wire) take(n uint32, c net.Conn) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	if w.conn == nil {
		c.Close()
		return
	}
	w.conn(n-w.first+vmm.PortAgent, c)
}

// add gives QEMU the device that the guest sees.
func (w *wire) add(c *command) {
	c.add("-device", fmt.Sprintf("vhost-vsock-pci,disable-legacy=on,guest-cid=%d,vhostfd=%d", w.cid, c.hand(w.device)))
	w.device = nil // the command closes it
}

// close ends taking: conn is not called any more. Connections stay.
func (w *wire) close() {
	w.begin(nil)
	w.s.Remove(w.cid)
	w.x.leave(w.first)
	if w.device != nil {
		w.device.Close()
	}
}
