package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/wire"
	"hutch/fs/duplex"
)

// An echo is a process that listens: what is sent to it comes back. It takes at most
// one connection where lone is set.
type echo struct {
	Task
	lone bool

	mu    sync.Mutex // guards taken
	taken int
}

func (e *echo) Dial(context.Context) (io.ReadWriteCloser, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.taken++; e.lone && e.taken > 1 {
		return nil, errors.New("connection refused")
	}
	near, far, err := duplex.Conns()
	if err != nil {
		return nil, err
	}
	go func() {
		defer far.Close()
		io.Copy(far, far)
	}()
	return near, nil
}

// listens starts a process that listens.
func listens(t *testing.T, lone bool) (*rig, *Program) {
	t.Helper()
	r := begin(t)
	r.elsewhere = func(ctx context.Context, s Start) (Task, error) {
		if s.In != nil || s.Out != nil {
			return nil, errors.New("it has pipes")
		}
		var err error
		if s.In, s.Out, err = pipes(); err != nil {
			return nil, err
		}
		task, err := startProcess(ctx, s)
		return &echo{Task: task, lone: lone}, err
	}
	key := r.Define([]wire.Server{{Name: "s", URL: "http://127.0.0.1:80/", Program: wire.Program{
		Command: "sleep", Args: []string{"1000"}, Sandbox: "box", Port: 80,
	}}})[0].Descriptor
	p, err := r.Start(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return r, p
}

// TestDial has connections made to a program, which end with it.
func TestDial(t *testing.T) {
	_, p := listens(t, false)
	var all []net.Conn
	for i := range maxConns {
		c, err := p.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
		fmt.Fprint(c, i)
	}
	if _, err := p.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot have more") {
		t.Errorf("one more: %v", err)
	}
	for i, c := range all[1:] {
		c.(*net.UnixConn).CloseWrite()
		if b, err := io.ReadAll(c); string(b) != fmt.Sprint(i+1) || err != nil {
			t.Errorf("%q %v", b, err)
		}
	}
	p.Stop()
	<-p.Ended()
	io.ReadFull(all[0], make([]byte, 1))
	if n, err := all[0].Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a connection outlives its program: %d %v", n, err)
	}
	if _, err := p.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "the program ") {
		t.Errorf("after its end: %v", err)
	}
}

// TestDialRefused has connections that cannot be made, by a program and by hutchd.
func TestDialRefused(t *testing.T) {
	deaf := begin(t).start(t, "exec sleep 1000")
	if _, err := deaf.Dial(t.Context()); err == nil || err.Error() != "the program does not listen" {
		t.Error(err)
	}
	r, p := listens(t, true)
	if c, err := p.Dial(t.Context()); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if _, err := p.Dial(t.Context()); err == nil || err.Error() != "connection refused" {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // whether it comes or not, nothing is left
		if c, err := p.Dial(over); err == nil {
			c.Close()
		}
	}
	r.conn.Close()
	if _, err := p.Dial(t.Context()); err == nil {
		t.Error("by nobody")
	}
}

// TestWords tells what a program has said that did not come to listen.
func TestWords(t *testing.T) {
	r := begin(t)
	r.elsewhere = func(_ context.Context, s Start) (Task, error) {
		fmt.Fprintln(s.Log, "no module x")
		return nil, errors.New("it ended")
	}
	key := r.Define([]wire.Server{{Name: "s", URL: "http://127.0.0.1:80/", Program: wire.Program{Sandbox: "box", Port: 80}}})[0].Descriptor
	if _, err := r.Start(t.Context(), key); err == nil || err.Error() != "start: it ended: no module x" {
		t.Error(err)
	}
}

// pipes returns an input without anything, and an output that nobody reads.
func pipes() (in, out *os.File, err error) {
	in, err1 := os.Open(os.DevNull)
	out, err2 := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	return in, out, errors.Join(err1, err2)
}
