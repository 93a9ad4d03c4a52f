package vsock

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mdlayher/vsock"
)

// TestLoopback connects listeners and dialler by the kernel's loopback transport,
// where that is: a test of vmm/qemu runs it in a guest.
func TestLoopback(t *testing.T) {
	switch os.Getenv("HUTCH_TEST_VSOCK") {
	case "loopback":
	case "stranger":
		stranger(t)
		return
	default:
		t.Skip("the test of the QEMU driver runs it in a guest")
	}
	const first, second = 6000, 6002
	s, err := Listen(Local, first, second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Listen(Local, second); err == nil {
		t.Error("two listen on one port")
	}
	ports := make(chan uint32, 10)
	serve := func(port uint32, c net.Conn) {
		ports <- port
		go func() {
			io.Copy(c, c)
			c.Close()
		}()
	}
	ask := func(port uint32) (string, error) {
		c, err := Dial(t.Context(), Local, port)
		if err != nil {
			return "", err
		}
		defer c.Close()
		go func() {
			io.WriteString(c, strings.Repeat("hello\n", 50000))
			c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		b, err := io.ReadAll(c)
		return string(b), err
	}
	// Who is not known is not served, whatever it says.
	if b, _ := ask(first); b != "" {
		t.Errorf("a stranger got %d bytes", len(b))
	}
	if err := s.Add(Local+100, func(uint32, net.Conn) { t.Error("a connection came to another guest") }); err != nil {
		t.Error(err)
	}
	if b, _ := ask(first); b != "" {
		t.Errorf("a stranger got %d bytes", len(b))
	}
	if err := s.Add(Local, serve); err != nil {
		t.Error(err)
	}
	for _, port := range []uint32{first, second, first} {
		if b, err := ask(port); len(b) != 300000 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if got := <-ports; got != port {
			t.Errorf("port %d, want %d", got, port)
		}
	}
	s.Remove(Local)
	reserved(t, s)
	if b, _ := ask(second); b != "" {
		t.Errorf("after Remove: %d bytes", len(b))
	}
	s.Close()
	if _, err := ask(first); err == nil {
		t.Error("dialled a listener that is closed")
	}
}

const trusting = 6000 // a port of TestLoopback

// reserved has root dial from reserved ports, and another user try.
func reserved(t *testing.T, s *Switch) {
	from := make(chan uint32, 10)
	err := s.Add(Local, func(_ uint32, c net.Conn) {
		n, _ := From(c)
		from <- n
		io.WriteString(c, "hello")
		c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Remove(Local)
	var open []net.Conn
	seen := map[uint32]bool{}
	for range 20 {
		c, err := DialReserved(t.Context(), Local, trusting)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
			t.Errorf("root: %q, %v", b, err)
		}
		n := <-from
		if n == 0 || n >= FirstOpen || seen[n] {
			t.Errorf("root dials from port %d", n)
		}
		seen[n] = true
	}
	for _, c := range open {
		c.Close()
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestLoopback$")
	cmd.Env = []string{"HUTCH_TEST_VSOCK=stranger"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("another user: %v: %s", err, out)
	}
	if n := <-from; n < FirstOpen {
		t.Errorf("another user dials from port %d", n)
	}
}

// stranger is a process that is not root's.
func stranger(t *testing.T) {
	if _, err := DialReserved(t.Context(), Local, trusting); !errors.Is(err, syscall.EACCES) {
		t.Errorf("from a reserved port: %v", err)
	}
	c, err := Dial(t.Context(), Local, trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestSwitch gives connections to guests by the context id of their peers.
func TestSwitch(t *testing.T) {
	s := &Switch{guests: make(map[uint32]func(uint32, net.Conn))}
	got := make(chan string, 10)
	if err := s.Add(7, func(uint32, net.Conn) { got <- "seven" }); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(8, func(uint32, net.Conn) { got <- "eight" }); err != nil {
		t.Fatal(err)
	}
	if s.Add(8, func(uint32, net.Conn) {}) == nil {
		t.Error("two guests with one context id")
	}
	for _, c := range []struct {
		from net.Addr
		want string
	}{
		{&vsock.Addr{ContextID: 7}, "seven"}, {&vsock.Addr{ContextID: 8, Port: 7}, "eight"}, {&vsock.Addr{ContextID: 9}, "closed"},
		{&vsock.Addr{ContextID: Host}, "closed"}, {&net.UnixAddr{Name: "vm(7):1"}, "closed"},
	} {
		s.take(5000, &from{addr: c.from, closed: got})
		if g := <-got; g != c.want {
			t.Errorf("%v: %s, want %s", c.from, g, c.want)
		}
	}
	s.Remove(7)
	s.take(5000, &from{addr: &vsock.Addr{ContextID: 7}, closed: got})
	if g := <-got; g != "closed" {
		t.Errorf("after Remove: %s", g)
	}
}

// from is a connection that says where it is from, and when it is closed.
type from struct {
	net.Conn
	addr   net.Addr
	closed chan string
}

func (f *from) RemoteAddr() net.Addr { return f.addr }
func (f *from) Close() error         { f.closed <- "closed"; return nil }
