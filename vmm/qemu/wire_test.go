//go:build linux

package qemu

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mdlayher "github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/relay/vsock"
	"hutch/vmm"
)

func TestAllot(t *testing.T) {
	for _, c := range []struct {
		name   string
		wanted uint32
		says   []error // of what is tried, one after the other; then nil
		kept   bool
		tried  int
		fails  bool
	}{
		{name: "any", tried: 1},
		{name: "the same again", wanted: 77, kept: true, tried: 1},
		{name: "somebody else's", wanted: 77, says: []error{unix.EADDRINUSE}, tried: 2},
		{name: "our own", wanted: 77, says: []error{fs.ErrExist, unix.EADDRINUSE}, tried: 3},
		{name: "no device", says: []error{unix.ENODEV}, tried: 1, fails: true},
		{name: "all taken", says: slices.Repeat([]error{unix.EADDRINUSE}, 1000), tried: tries, fails: true},
	} {
		var list []uint32
		got, err := allot(c.wanted, func(cid uint32) error {
			list = append(list, cid)
			if n := len(list); n <= len(c.says) {
				return c.says[n-1]
			}
			return nil
		})
		if (err != nil) != c.fails || len(list) != c.tried || c.kept != (got == c.wanted && got != 0) {
			t.Errorf("%s: %d, %v after %d", c.name, got, err, len(list))
		}
		if !c.fails && got != list[len(list)-1] {
			t.Errorf("%s: %d is not what was taken last, %v", c.name, got, list)
		}
		for _, cid := range list {
			if cid != c.wanted && (cid < firstCID || cid >= firstCID+cids) {
				t.Errorf("%s: tried %d", c.name, cid)
			}
		}
	}
}

// A host is one machine's kernel, as exchanges see it.
type host struct {
	cids  map[uint32]*os.File
	ports map[uint32]bool
}

func (h *host) assign(f *os.File, cid uint32) error {
	if old := h.cids[cid]; old != nil && old != f && old.Fd() != ^uintptr(0) {
		return unix.EADDRINUSE
	}
	for c, g := range h.cids {
		if g == f {
			delete(h.cids, c)
		}
	}
	h.cids[cid] = f
	return nil
}

func (h *host) listen(cid uint32, ports ...uint32) (*vsock.Switch, error) {
	for _, p := range ports {
		if h.ports[p] {
			return nil, fmt.Errorf("port %d: %w", p, unix.EADDRINUSE)
		}
		h.ports[p] = true
	}
	return vsock.Listen(cid)
}

// exchange returns that of one service.
func (h *host) exchange(t *testing.T, dir string) *exchange {
	x := newExchange(dir)
	x.device = filepath.Join(t.TempDir(), "vhost-vsock")
	if err := os.WriteFile(x.device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.assign, x.listen = h.assign, h.listen
	return x
}

func plug(t *testing.T, x *exchange, first, cid uint32) *wire {
	t.Helper()
	w, err := x.plug(first, cid)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestExchange has two services on one host, which have the same folder for
// what their ports are taken from.
func TestExchange(t *testing.T) {
	h := &host{map[uint32]*os.File{}, map[uint32]bool{}}
	one, two := h.exchange(t, "/dir"), h.exchange(t, "/dir")
	a, b, c := plug(t, one, 0, 0), plug(t, one, 0, 0), plug(t, two, 0, 0)
	if a.first != b.first || a.first == c.first || len(h.ports) != 8 {
		t.Errorf("ports from %d, %d and %d on", a.first, b.first, c.first)
	}
	if a.cid == b.cid || a.cid == c.cid || b.cid == c.cid {
		t.Errorf("context ids %d, %d and %d", a.cid, b.cid, c.cid)
	}
	// One goes on beside what it was copied from, one after that has ended.
	d := plug(t, one, a.first, a.cid)
	if d.cid == a.cid || d.first != a.first {
		t.Errorf("a copy of %d from port %d on has %d from %d", a.cid, a.first, d.cid, d.first)
	}
	cid := a.cid
	a.close()
	if a = plug(t, one, a.first, cid); a.cid != cid {
		t.Errorf("went on as %d, was %d", a.cid, cid)
	}
	if _, err := one.plug(c.first, 0); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("on the other's ports: %v", err)
	}
	if _, err := one.adopt(b.first, b.cid); !errors.Is(err, fs.ErrExist) {
		t.Errorf("adopted a machine twice: %v", err)
	}
	first := b.first
	for _, w := range []*wire{a, b, c, d} {
		w.close()
	}
	if len(one.switches)+len(two.switches) > 0 {
		t.Error("listens for nobody")
	}
	// As another process would, which has no listeners yet and no device.
	h.ports = map[uint32]bool{}
	w, err := h.exchange(t, "/other").adopt(first, cid)
	if err != nil || w.cid != cid || w.first != first || !h.ports[first] || h.ports[first+4] {
		t.Errorf("adopted: %+v, %v, listens on %v", w, err, h.ports)
	}
	two.device = filepath.Join(t.TempDir(), "nothing")
	if _, err := two.plug(0, 0); !errors.Is(err, os.ErrNotExist) || len(two.switches) > 0 {
		t.Errorf("without the device: %v", err)
	}
}

// TestWire has a machine's connections come to it, by the numbers that it knows.
func TestWire(t *testing.T) {
	h := &host{map[uint32]*os.File{}, map[uint32]bool{}}
	w := plug(t, h.exchange(t, "/dir"), 0, 0)
	dial := func(n uint32) (closed bool) {
		near, far := net.Pipe()
		defer near.Close()
		w.take(n, far)
		return far.SetDeadline(time.Time{}) != nil
	}
	if !dial(w.first) {
		t.Error("took a connection before the machine was there")
	}
	var got []uint32
	w.begin(func(n uint32, _ net.Conn) { got = append(got, n) })
	for i := range uint32(4) {
		if dial(w.first + i) {
			t.Errorf("port %d is closed", w.first+i)
		}
	}
	if fmt.Sprint(got) != "[5000 5001 5002 5003]" {
		t.Errorf("ports %v", got)
	}
	w.close()
	if !dial(w.first) || len(got) != 4 {
		t.Error("took a connection after the end")
	}
}

// TestPosed has connections come to the ports of a machine from processes that
// are not root's, and from one that is.
func TestPosed(t *testing.T) {
	took, refused := make(chan uint32, 10), make(chan string, 10)
	p := &port{wire: &wire{}, m: &machine{spec: vmm.Spec{
		Conn:    func(n uint32, _ net.Conn) { took <- n },
		Refused: func(n uint32, why string) { refused <- fmt.Sprintf("%d: %s", n, why) },
	}}}
	const why = "it is root's, and who dialled it is not root"
	for _, c := range []struct {
		kept bool
		n    uint32
		from net.Addr
		want string
	}{
		{true, 5000, &mdlayher.Addr{ContextID: 70000, Port: 1023}, "taken"},
		{true, 5000, &mdlayher.Addr{ContextID: 70000, Port: 1024}, "5000: " + why},
		{true, 5000, &mdlayher.Addr{ContextID: 70000, Port: 1 << 31}, "5000: " + why},
		{true, 5001, &mdlayher.Addr{ContextID: 70000, Port: 1 << 31}, "5001: " + why},
		{true, 5000, &net.UnixAddr{}, "5000: " + why},
		{true, 5002, &mdlayher.Addr{ContextID: 70000, Port: 1 << 31}, "taken"},
		{false, 5000, &mdlayher.Addr{ContextID: 70000, Port: 1 << 31}, "taken"}, // its guest is of an earlier hutchd
	} {
		// As it is kept for a machine that goes on, or is adopted.
		if err := json.Unmarshal(fmt.Appendf(nil, `{"shape":{"ports":7,"reserved":%t}}`, c.kept), &p.m.found); err != nil {
			t.Fatal(err)
		}
		var data struct{ Shape map[string]any }
		if json.Unmarshal(p.m.State(), &data); (data.Shape["reserved"] == true) != c.kept {
			t.Errorf("the state has %v", data)
		}
		near, far := net.Pipe()
		p.take(t.Context(), c.n, &from{far, c.from})
		far.Close() // which is the end of serving folders, too
		p.serving.Wait()
		got := "lost"
		select {
		case got = <-refused:
		case <-took:
			got = "taken"
		default:
		}
		if got != c.want {
			t.Errorf("to %d from %v: %s, want %s", c.n, c.from, got, c.want)
		}
		near.Close()
	}
}

// from is a connection from an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f *from) RemoteAddr() net.Addr { return f.addr }

// TestPortArguments is what QEMU and the kernel are told of the ports.
func TestPortArguments(t *testing.T) {
	h := &host{map[uint32]*os.File{}, map[uint32]bool{}}
	w := plug(t, h.exchange(t, "/dir"), 0, 0)
	defer w.close()
	file := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	args := func(w *wire, sh shape) string {
		c := &command{}
		defer c.close()
		if err := errors.Join(c.ports(t.TempDir(), w), c.boot(file, file, sh)); err != nil {
			t.Fatal(err)
		}
		return strings.Join(c.args, " ")
	}
	got := args(w, shape{Accel: kvm, CID: w.cid, Ports: w.first})
	device := fmt.Sprintf("-device vhost-vsock-pci,disable-legacy=on,guest-cid=%d,vhostfd=3 ", w.cid)
	if !strings.HasPrefix(got, device) || strings.Contains(got, "virtio-serial") || !strings.HasSuffix(got, fmt.Sprintf(" hutch.vsock=%d", w.first)) {
		t.Errorf("with vsock: %s", got)
	}
	if got := args(nil, shape{Accel: kvm}); !strings.Contains(got, "virtserialport,name=hutch") || strings.Contains(got, "vsock") {
		t.Errorf("without: %s", got)
	}
}
