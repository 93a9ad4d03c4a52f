package guest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs"
	"hutch/fs/duplex"
	"hutch/relay/agent"
	"hutch/relay/guest"
)

// A pair is an agent and the host's side of it, with a socket between them.
type pair struct {
	t       testing.TB
	a       *agent.Agent
	g       *guest.Guest
	ctx     context.Context // of the agent's connections
	there   net.Conn        // the guest's end of the last one
	serving sync.WaitGroup
}

func newPair(t testing.TB) *pair {
	t.Helper()
	a, err := agent.New(agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &pair{t: t, a: a, g: guest.New(), ctx: ctx}
	t.Cleanup(func() {
		stop()
		p.g.Close()
		p.serving.Wait()
		a.Close()
	})
	p.connect()
	return p
}

// connect makes a connection in the place of the last, which is lost, and
// returns the guest's end of it.
func (p *pair) connect() net.Conn {
	p.t.Helper()
	here, there := sockets(p.t)
	if p.there != nil {
		p.there.Close()
	}
	p.there = there
	p.serving.Go(func() { p.a.Serve(p.ctx, there) })
	p.g.Attach(here)
	for end := time.Now().Add(time.Minute); !p.g.Settled(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatal("not connected")
		}
	}
	return there
}

// sockets returns the two ends of a connection.
func sockets(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	a, b, err := duplex.Conns()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func (p *pair) exec(name string, lines ...string) *guest.Exec {
	p.t.Helper()
	e, err := p.g.MakeExec(p.t.Context(), name)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, l := range lines {
		if err := e.Ctl(p.t.Context(), l); err != nil {
			p.t.Fatalf("%s: %v", l, err)
		}
	}
	return e
}

func open(t testing.TB, e *guest.Exec, name string, flags int) *stream {
	t.Helper()
	h, err := e.Open(t.Context(), name, flags)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{h: h, ctx: t.Context()}
}

// A stream is an open file with a place.
type stream struct {
	h   fs.Handle
	ctx context.Context
	off int64
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.h.ReadAt(s.ctx, p, s.off)
	s.off += int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) { return s.h.WriteAt(s.ctx, p, 0) }

func (s *stream) Close() error { return s.h.Close() }

func all(t testing.TB, e *guest.Exec, name string) string {
	t.Helper()
	s := open(t, e, name, os.O_RDONLY)
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(b)
}

func TestExec(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec sh -c 'echo out; echo err >&2; exit 3'")
	if s := all(t, e, "stdout"); s != "out\n" {
		t.Errorf("stdout %q", s)
	}
	if s := all(t, e, "stderr"); s != "err\n" {
		t.Errorf("stderr %q", s)
	}
	if s := all(t, e, "wait"); !strings.HasPrefix(s, "3 0.") {
		t.Errorf("wait %q", s)
	}
	if s, err := e.Read(t.Context(), "status"); !strings.HasPrefix(s, "exited\n") || err != nil {
		t.Errorf("status %q, %v", s, err)
	}
	if names, err := p.g.Execs(t.Context()); !slices.Equal(names, []string{"t"}) || err != nil {
		t.Errorf("execs %q, %v", names, err)
	}
	if _, err := p.g.Exec(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	if err := e.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.g.Exec(t.Context(), "t"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after remove: %v", err)
	}
}

func TestErrorsKeepTheirText(t *testing.T) {
	p := newPair(t)
	e := p.exec("t")
	for _, c := range []struct {
		line string
		kind error
		text string
	}{
		{"exec no-such-program", fs.ErrNotExist, "no-such-program"},
		{"frob", fs.ErrInvalid, "frob"},
		{"signal TERM", fs.ErrBusy, "exec t is new"},
		{"two\nlines", fs.ErrInvalid, "newline"},
		{"exec " + strings.Repeat("x", fs.MaxMessage), fs.ErrInvalid, "at most"},
	} {
		err := e.Ctl(t.Context(), c.line)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%.20q: %v", c.line, err)
		}
	}
	if _, err := p.g.MakeExec(t.Context(), "t"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("made twice: %v", err)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00b", strings.Repeat("x", 300)} {
		if _, err := p.g.MakeExec(t.Context(), name); err == nil {
			t.Errorf("made %q", name)
		}
	}
	if err := p.g.Ctl(t.Context(), "env A"); !errors.Is(err, fs.ErrInvalid) || !strings.Contains(err.Error(), "K V") {
		t.Errorf("agent's ctl: %v", err)
	}
}

// TestReadAgain reads output of which only the end is kept, from its start
// and from elsewhere.
func TestReadAgain(t *testing.T) {
	p := newPair(t)
	const limit, size = 64 << 10, 300_000
	e := p.exec("t", "limit 64KiB", "exec sh -c 'i=0; while [ $i -lt 30000 ]; do printf \"%09d\\n\" $i; i=$((i+1)); done'")
	first := all(t, e, "stdout")
	if len(first) != size {
		t.Fatalf("read %d bytes", len(first))
	}
	again := all(t, e, "stdout")
	if len(again) < limit/2 || !strings.HasSuffix(first, again) {
		t.Errorf("read %d bytes again, beginning %.20q", len(again), again)
	}
	status, err := e.Read(t.Context(), "status")
	if want := fmt.Sprintf("\nstdout %d from %d\n", size, size-len(again)); !strings.Contains(status, want) || err != nil {
		t.Errorf("status %q, %v, want %q", status, err, want)
	}
	h, err := e.Open(t.Context(), "stdout", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	b := make([]byte, 10)
	want := fmt.Sprintf("invalid argument: offset 10: the output before %d is gone", size-len(again))
	if _, err := h.ReadAt(t.Context(), b, 10); fs.Text(err) != want {
		t.Errorf("at 10: %v, want %s", err, want)
	}
	if n, err := h.ReadAt(t.Context(), b, size-10); string(b[:n]) != "000029999\n" || err != nil {
		t.Errorf("at the end: %q, %v", b[:n], err)
	}
	if _, err := h.ReadAt(t.Context(), b, 0); fs.Errno(err) != syscall.EINVAL {
		t.Errorf("at 0, after an offset of the whole: %v", err)
	}
}

// TestLongMessages tells commands of words with lines, in messages of one
// write and of several, all at once.
func TestLongMessages(t *testing.T) {
	p := newPair(t)
	var running sync.WaitGroup
	for i, n := range []int{0, 1000, 100_000, 120_000} {
		e := p.exec(fmt.Sprint(i))
		running.Go(func() {
			words := []string{"sh", "-c", strings.Repeat("# it's\n", n/7) + `printf '%s.' "$@"`, "x", "a\nkill", strings.Repeat("'\n", n/4), "", strings.Repeat("'\n", n/4)}
			if err := e.Ctl(t.Context(), "exec "+fs.QuoteAll(words)); err != nil {
				t.Error(err)
				return
			}
			if cmd, err := e.Read(t.Context(), "cmd"); cmd != fs.QuoteAll(words)+"\n" {
				t.Errorf("cmd of %d bytes: %v", len(cmd), err)
			}
			if got := all(t, e, "stdout"); got != strings.Join(words[4:], ".")+"." {
				t.Errorf("printed %.20q… of %d bytes", got, len(got))
			}
		})
	}
	running.Wait()
}

func TestStdin(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec cat")
	in := open(t, e, "stdin", os.O_WRONLY)
	const size = 3 << 20
	var send sync.WaitGroup
	send.Go(func() {
		defer in.Close()
		if _, err := io.CopyN(in, rand.NewChaCha8([32]byte{}), size); err != nil {
			t.Error(err)
		}
	})
	want := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(want)
	if got := all(t, e, "stdout"); got != string(want) {
		t.Errorf("%d bytes came, not the ones sent", len(got))
	}
	send.Wait()
	all(t, e, "wait")
	if _, err := open(t, e, "stdin", os.O_WRONLY).Write([]byte("x")); !errors.Is(err, fs.ErrPipe) {
		t.Errorf("after the end: %v", err)
	}
}

func TestBlockedReadIsCancelled(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec cat")
	out, in := open(t, e, "stdout", os.O_RDONLY), open(t, e, "stdin", os.O_WRONLY)
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := out.h.ReadAt(ctx, make([]byte, 10), 0)
			ended <- err
		}()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	io.WriteString(in, "all of it")
	in.Close()
	if b, err := io.ReadAll(out); string(b) != "all of it" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := open(t, p.exec("u", "exec cat"), "stdout", os.O_RDONLY|syscall.O_NONBLOCK).Read(make([]byte, 1)); !errors.Is(err, fs.ErrAgain) {
		t.Errorf("without blocking: %v", err)
	}
}

func TestBlockedWriteIsCancelled(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec sleep 1000")
	in := open(t, e, "stdin", os.O_WRONLY)
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		n   int
		err error
	}
	ended := make(chan result)
	go func() {
		for {
			n, err := in.h.WriteAt(ctx, make([]byte, 1<<20), 0)
			ended <- result{n, err}
			if err != nil {
				return
			}
		}
	}()
	cancel()
	for r := range ended {
		if r.err != nil {
			if !errors.Is(r.err, context.Canceled) {
				t.Error(r.err)
			}
			break
		}
	}
}

// TestExactContinuation reads what is left of a short read with the very
// count that 9P servers answer with nothing.
func TestExactContinuation(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec cat")
	out, in := open(t, e, "stdout", os.O_RDONLY), open(t, e, "stdin", os.O_WRONLY)
	io.WriteString(in, "1234")
	b := make([]byte, 10)
	if n, err := io.ReadAtLeast(out, b, 4); n != 4 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	io.WriteString(in, "5")
	if n, err := out.Read(b[4:]); n != 1 || err != nil {
		t.Fatalf("continuation: %d, %v", n, err)
	}
	io.WriteString(in, "67890")
	if n, err := io.ReadFull(out, b[5:]); n != 5 || err != nil || string(b) != "1234567890" {
		t.Fatalf("%d, %v, %q", n, err, b)
	}
}

func TestManyAtOnce(t *testing.T) {
	p := newPair(t)
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			e := p.exec(fmt.Sprint("n", i), fmt.Sprintf("sh echo out %d; echo err %d >&2; exit %d", i, i, i))
			if s := all(t, e, "stdout"); s != fmt.Sprintf("out %d\n", i) {
				t.Errorf("%d: stdout %q", i, s)
			}
			if s := all(t, e, "stderr"); s != fmt.Sprintf("err %d\n", i) {
				t.Errorf("%d: stderr %q", i, s)
			}
			if s := all(t, e, "wait"); !strings.HasPrefix(s, fmt.Sprint(i, " ")) {
				t.Errorf("%d: wait %q", i, s)
			}
			if err := e.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

func TestCloseEndsEverything(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec cat")
	out := open(t, e, "stdout", os.O_RDONLY)
	ended := make(chan error)
	go func() {
		_, err := out.Read(make([]byte, 1))
		ended <- err
	}()
	p.g.Close()
	if err := <-ended; !errors.Is(err, fs.ErrIO) {
		t.Error(err)
	}
	if err := p.g.Ready(t.Context()); !errors.Is(err, fs.ErrIO) {
		t.Error(err)
	}
}

func TestConsole(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	p := newPair(t)
	h, err := p.g.Cons(t.Context(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	c := &stream{h: h, ctx: t.Context()}
	io.WriteString(c, "echo o''ne\n")
	until(t, c, "one\r\n")
	p.connect()
	io.WriteString(c, "echo t''wo\n")
	if s := until(t, c, "two\r\n"); strings.Contains(s, "one") {
		t.Errorf("read again: %q", s)
	}
	c.Close()
}

func until(t testing.TB, r io.Reader, text string) string {
	t.Helper()
	var got strings.Builder
	b := make([]byte, 4096)
	for !strings.Contains(got.String(), text) {
		n, err := r.Read(b)
		got.Write(b[:n])
		if err != nil {
			t.Fatalf("%q, then %v; want %q", &got, err, text)
		}
	}
	return got.String()
}

func TestShutdown(t *testing.T) {
	t.Setenv("HUTCH_PORTS", t.TempDir())
	l, err := net.Listen("unix", filepath.Join(os.Getenv("HUTCH_PORTS"), "5000"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var d net.Dialer
	a, err := agent.New(agent.Config{Dial: func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "unix", l.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- a.Run(context.Background()) }()
	g := guest.New()
	defer g.Close()
	for range 3 { // it dials again
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	g.Attach(c)
	p := &pair{t: t, a: a, g: g}
	p.exec("t", "exec sleep 1000")
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
