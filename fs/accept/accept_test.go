package accept

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A script is a listener that says what it was told to, then waits until it is
// closed.
type script struct {
	say    chan error // nil: a connection
	closed chan struct{}
	once   sync.Once // closes closed
}

func (s *script) Accept() (net.Conn, error) {
	select {
	case err := <-s.say:
		if err != nil {
			return nil, &net.OpError{Op: "accept", Net: "unix", Err: err}
		}
		c, _ := net.Pipe()
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *script) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func newScript(say ...error) *script {
	s := &script{say: make(chan error, len(say)), closed: make(chan struct{})}
	for _, err := range say {
		s.say <- err
	}
	return s
}

// TestServe takes a connection after each error that passes, and is told of
// the error.
func TestServe(t *testing.T) {
	for _, number := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM,
	} {
		s := newScript(os.NewSyscallError("accept4", number), number, nil)
		ctx, cancel := context.WithCancel(t.Context())
		taken, told := 0, 0
		err := Serve(ctx, s, func(c net.Conn) {
			taken++
			c.Close()
			cancel()
		}, func(err error) {
			told++
			if !errors.Is(err, number) {
				t.Errorf("told of %v, want %v", err, number)
			}
		})
		if taken != 1 || told != 1 || err != nil {
			t.Errorf("%v: %d taken, told %d times, %v", number, taken, told, err)
		}
	}
}

func TestEnd(t *testing.T) {
	never := func(net.Conn) { t.Error("took a connection") }
	closed := newScript()
	closed.Close()
	if err := Serve(t.Context(), closed, never, nil); err != nil {
		t.Errorf("closed: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newScript(syscall.EMFILE)
	if err := Serve(ctx, s, never, nil); err != nil {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := (&script{say: nil, closed: s.closed}).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener is open: %v", err)
	}
	for _, end := range []error{syscall.EINVAL, syscall.EBADF, io.EOF, errors.New("another")} {
		if err := Serve(t.Context(), newScript(end), never, nil); !errors.Is(err, end) {
			t.Errorf("%v: %v", end, err)
		}
	}
}

// TestEcho sends more than buffers hold, and reads it back with its end.
func TestEcho(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Echo(ctx, l) }()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	text := strings.Repeat("it is long. ", 1<<20)
	c := dial()
	defer c.Close()
	go func() {
		io.WriteString(c, text)
		c.(*net.TCPConn).CloseWrite()
	}()
	if got, err := io.ReadAll(c); err != nil || string(got) != text {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	idle := dial()
	defer idle.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n, _ := io.Copy(io.Discard, idle); n > 0 {
		t.Errorf("%d bytes of nobody", n)
	}
}
