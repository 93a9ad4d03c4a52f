package port_test

import (
	"io"
	"net"
	"testing"

	"hutch/relay/port"
)

func TestDial(t *testing.T) {
	t.Setenv("HUTCH_PORTS", t.TempDir())
	l, err := net.Listen("unix", port.Path(port.Agent))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	c, err := port.Dial(t.Context(), port.Agent)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Fatalf("read %q, %v", b, err)
	}
	if _, err := port.Dial(t.Context(), port.MCP); err == nil {
		t.Fatal("dialled a port that is not there")
	}
}

// TestHangUp reads what came before the end, and the end, whether the read
// waits for it or comes later.
func TestHangUp(t *testing.T) {
	t.Setenv("HUTCH_PORTS", t.TempDir())
	l, err := net.Listen("unix", port.Path(port.Agent))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 200 {
		c, err := port.Dial(t.Context(), port.Agent)
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		end := func() {
			io.WriteString(peer, "last words")
			peer.Close()
			close(closed)
		}
		if i%2 == 0 {
			go end()
		} else {
			end()
		}
		if b, err := io.ReadAll(c); string(b) != "last words" || err != nil {
			t.Fatalf("read %q, %v", b, err)
		}
		<-closed
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Fatalf("after the end: %v", err)
		}
		c.Close()
		c.Close()
	}
}

func TestCloseWhileReading(t *testing.T) {
	t.Setenv("HUTCH_PORTS", t.TempDir())
	l, err := net.Listen("unix", port.Path(port.Agent))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := port.Dial(t.Context(), port.Agent)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	ended := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	c.(interface{ CloseWrite() error }).CloseWrite()
	if _, err := peer.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("half-closed: %v", err)
	}
	c.Close()
	if err := <-ended; err == nil {
		t.Error("read something")
	}
	if _, err := peer.Write([]byte("x")); err == nil {
		t.Error("the other side is open")
	}
}
