package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// serve serves on an address, until the test or end ends.
func serve(t *testing.T, dial Dial) (address string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Serve(ctx, l, dial)
	}()
	end = func() {
		cancel()
		<-done
	}
	t.Cleanup(end)
	return l.Addr().String(), end
}

// TestCarry carries connections to a host that answers with what it was sent.
func TestCarry(t *testing.T) {
	host, err := net.Listen("unix", filepath.Join(t.TempDir(), "5003"))
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	named := make(chan string, 10)
	go func() {
		for {
			c, err := host.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				line, _ := in.ReadString('\n')
				named <- line
				io.Copy(c, in)
			}()
		}
	}()
	address, end := serve(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", host.Addr().String())
	})
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		self = []byte("unknown\n")
	}
	text := strings.Repeat("\x00hello\n", 100000)
	for range 3 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		go func() { io.WriteString(c, text); c.(*net.TCPConn).CloseWrite() }()
		if b, err := io.ReadAll(c); string(b) != text || err != nil {
			t.Errorf("%d bytes came back of %d, %v", len(b), len(text), err)
		}
		c.Close()
		if got, want := <-named, "\x00CAPSEM_META:"+string(self); got != want {
			t.Errorf("named %q, want %q", got, want)
		}
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	<-named
	end()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived Serve")
	}
	c.Close()
}

func TestNoHost(t *testing.T) {
	address, _ := serve(t, func(context.Context) (net.Conn, error) { return nil, errors.New("nobody") })
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || !strings.Contains(string(b), "the host's proxy does not answer") {
		t.Errorf("%q", b)
	}
}

// TestSamePort tells two connections apart that are from the same port.
func TestSamePort(t *testing.T) {
	need.File(t, "/proc/net/tcp")
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}}
	var conns []net.Conn
	for range 2 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := from.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		from.LocalAddr = c.LocalAddr()
		conns = append(conns, c)
	}
	for _, c := range conns {
		want := ""
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { want, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
		}
		if got := socketOf(c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)); got != want || err != nil {
			t.Errorf("found %q, want %q, %v", got, want, err)
		}
	}
}

func TestPreamble(t *testing.T) {
	if got := string(preamble("a b\nc\x00é")); got != "\x00CAPSEM_META:a_b_c__\n" {
		t.Errorf("%q", got)
	}
}
