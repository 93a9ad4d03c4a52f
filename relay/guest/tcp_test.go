package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
)

// serveTCP has a function serve each connection to a port of the loopback, which
// it returns. All end with the test.
func serveTCP(t testing.TB, serve func(net.Conn)) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex // guards conns
	var conns []net.Conn
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			work.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func echo(c net.Conn) { io.Copy(c, c) }

// tcp returns a connection called name, connected to port.
func (p *pair) tcp(name, port string) *guest.TCP {
	p.t.Helper()
	c, err := p.g.MakeTCP(p.t.Context(), name)
	if err == nil {
		err = c.Ctl(p.t.Context(), "connect "+port)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// say writes text and reads as much as it has.
func say(t testing.TB, c *guest.TCP, text string) string {
	t.Helper()
	if n, err := c.Write(t.Context(), []byte(text)); err != nil || n != len(text) {
		t.Fatal(n, err)
	}
	var got []byte
	for p := make([]byte, 64<<10); len(got) < len(text); {
		n, err := c.Read(t.Context(), p, false)
		if err != nil || n == 0 {
			t.Fatalf("%d bytes, %v", n, err)
		}
		got = append(got, p[:n]...)
	}
	return string(got)
}

// TestTCPFlood has one who sends for ever wait, with nobody else, until it is read.
func TestTCPFlood(t *testing.T) {
	p := newPair(t)
	var sent atomic.Int64
	stuck := make(chan bool, 1)
	flood := serveTCP(t, func(c net.Conn) {
		for b := make([]byte, 64<<10); ; {
			c.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := c.Write(b)
			sent.Add(int64(n))
			switch {
			case errors.Is(err, context.DeadlineExceeded), err != nil && strings.Contains(err.Error(), "timeout"):
				select {
				case stuck <- true:
				default:
				}
			case err != nil:
				return
			}
		}
	})
	c := p.tcp("flood", flood)
	<-stuck
	if text, err := c.Status(t.Context()); err != nil || !strings.Contains(text, "\nreceived ") {
		t.Errorf("%q, %v", text, err)
	} else {
		var received int64
		_, rest, _ := strings.Cut(text, "\nreceived ")
		if fmt.Sscan(rest, &received); received > 256<<10 {
			t.Errorf("%d bytes are kept unread", received)
		}
	}
	other := p.tcp("echo", serveTCP(t, echo))
	if got := say(t, other, "hello"); got != "hello" {
		t.Errorf("%q", got)
	}
	before, read := sent.Load(), int64(0)
	for b := make([]byte, 64<<10); sent.Load() == before || read < before; {
		n, err := c.Read(t.Context(), b, false)
		if err != nil || n == 0 || bytes.Trim(b[:n], "\x00") != nil && len(bytes.Trim(b[:n], "\x00")) > 0 {
			t.Fatalf("after %d of %d bytes: %d, %v", read, before, n, err)
		}
		read += int64(n)
	}
}

// TestTCPLost loses the connection to the agent under one to a port.
func TestTCPLost(t *testing.T) {
	p := newPair(t)
	gone := make(chan bool, 1)
	c := p.tcp("1", serveTCP(t, func(c net.Conn) { echo(c); gone <- true }))
	say(t, c, "hello")
	waits := make(chan error, 1)
	go func() {
		_, err := c.Read(t.Context(), make([]byte, 10), false)
		waits <- err
	}()
	p.connect()
	if err := <-waits; !errors.Is(err, guest.ErrTCPLost) {
		t.Errorf("a read that waited: %v", err)
	}
	<-gone // which the agent does not keep
	if _, err := c.Write(t.Context(), []byte("x")); !errors.Is(err, guest.ErrTCPLost) {
		t.Errorf("write: %v", err)
	}
	c.Close()
	if got := say(t, p.tcp("1", serveTCP(t, echo)), "anew"); got != "anew" {
		t.Errorf("%q", got)
	}
}

// TestTCPHang connects to a port that does not answer.
func TestTCPHang(t *testing.T) {
	p := newPair(t)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1!%d", sa.(*syscall.SockaddrInet4).Port)
	var waiting []*guest.TCP
	hung := make(chan error, 8)
	for i := range 8 { // of which its queue has some
		c, err := p.g.MakeTCP(t.Context(), fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
		go func() { hung <- c.Ctl(t.Context(), "connect "+addr) }()
	}
	if got := say(t, p.tcp("echo", serveTCP(t, echo)), "hello"); got != "hello" {
		t.Errorf("%q", got)
	}
	for _, c := range waiting {
		if err := c.Ctl(t.Context(), "hangup"); err != nil {
			t.Error(err)
		}
	}
	failed := 0
	for range waiting {
		if err := <-hung; err != nil {
			failed++
			if !fs.Is(err, fs.ErrInterrupted) && !fs.Is(err, fs.ErrBusy) {
				t.Errorf("hung up: %v", err)
			}
		}
	}
	if failed == 0 {
		t.Error("nobody had to wait")
	}
}

// TestTCPOfOldAgent asks an agent that knows no net.
func TestTCPOfOldAgent(t *testing.T) {
	answers := honest()
	walk := answers[110]
	answers[110] = func(req []byte) []byte {
		if bytes.Contains(req, []byte("net")) {
			return []byte{0, 0}
		}
		return walk(req)
	}
	g := newGuest(t)
	newLiar(t, g, answers)
	if _, err := g.MakeTCP(t.Context(), "1"); !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), "stop the VM and start it") {
		t.Errorf("%v", err)
	}
}

// TestTCPOfLiar has an agent answer what is about a connection wrongly.
func TestTCPOfLiar(t *testing.T) {
	for name, c := range map[string]struct {
		typ    uint8
		answer func([]byte) []byte
	}{
		"read too much":  {116, func([]byte) []byte { return counted(make([]byte, 1000)) }},
		"read count":     {116, func([]byte) []byte { return []byte{255, 255, 255, 255, 1} }},
		"write too much": {118, func([]byte) []byte { return []byte{255, 255, 255, 255} }},
		"write nothing":  {118, func([]byte) []byte { return []byte{0, 0, 0, 0} }},
	} {
		t.Run(name, func(t *testing.T) {
			answers := honest()
			answers[c.typ] = c.answer
			g := newGuest(t)
			newLiar(t, g, answers)
			tcp, err := g.MakeTCP(t.Context(), "1")
			if err == nil {
				_, err1 := tcp.Read(t.Context(), make([]byte, 10), false)
				_, err2 := tcp.Write(t.Context(), []byte("hello"))
				err = errors.Join(err1, err2)
				tcp.Close()
			}
			if err == nil {
				t.Error("believed")
			}
		})
	}
}

// BenchmarkTCP is a connection through an agent beside one without.
func BenchmarkTCP(b *testing.B) {
	type conn struct{ read, write func([]byte) (int, error) }
	through := func(b *testing.B, port string) conn {
		c := newPair(b).tcp("1", port)
		return conn{
			func(p []byte) (int, error) { return c.Read(b.Context(), p, false) },
			func(p []byte) (int, error) { return c.Write(b.Context(), p) },
		}
	}
	plain := func(b *testing.B, port string) conn {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return conn{c.Read, c.Write}
	}
	for name, dial := range map[string]func(*testing.B, string) conn{"through": through, "plain": plain} {
		b.Run("roundtrip/"+name, func(b *testing.B) {
			c := dial(b, serveTCP(b, echo))
			var took []time.Duration
			p := make([]byte, 1)
			for b.Loop() {
				begin := time.Now()
				if _, err := c.write([]byte("x")); err != nil {
					b.Fatal(err)
				}
				if n, err := c.read(p); n == 0 || err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			report(b, took)
		})
		b.Run("bytes/"+name, func(b *testing.B) {
			c := dial(b, serveTCP(b, func(c net.Conn) {
				for p := make([]byte, 64<<10); ; {
					if _, err := c.Write(p); err != nil {
						return
					}
				}
			}))
			p := make([]byte, 64<<10)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				for n := 0; n < len(p); {
					got, err := c.read(p[n:])
					if got == 0 || err != nil {
						b.Fatal(err)
					}
					n += got
				}
			}
		})
	}
}
