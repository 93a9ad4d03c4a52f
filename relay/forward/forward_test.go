package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	f, err := Listen("127.0.0.1:0", func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", host.Addr().String())
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		self = []byte("unknown\n")
	}
	text := strings.Repeat("\x00hello\n", 100000)
	for range 3 {
		c, err := net.Dial("tcp", f.Addr().String())
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
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	<-named
	f.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived Close")
	}
	c.Close()
}

func TestNoHost(t *testing.T) {
	f, err := Listen("127.0.0.1:0", func(context.Context) (net.Conn, error) { return nil, errors.New("nobody") })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, _ := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || !strings.Contains(string(b), "the host's proxy does not answer") {
		t.Errorf("%q", b)
	}
}

func TestPreamble(t *testing.T) {
	if got := string(preamble("a b\nc\x00é")); got != "\x00CAPSEM_META:a_b_c__\n" {
		t.Errorf("%q", got)
	}
}
