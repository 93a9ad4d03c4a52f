package line

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A port is a virtio-serial port: the host's end comes and goes, and what was
// on its way stays in it.
type port struct {
	mu   sync.Mutex // guards what follows
	host net.Conn   // the qemu side of the host's connection
	came chan struct{}
	cut  []byte        // is read before anything else
	gone chan struct{} // closed by Close
	once sync.Once
}

func newPort() *port { return &port{came: make(chan struct{}), gone: make(chan struct{})} }

// connect gives the port a new host.
func (p *port) connect() net.Conn {
	near, far := net.Pipe()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		p.host.Close()
	}
	p.host = far
	close(p.came)
	p.came = make(chan struct{})
	return near
}

func (p *port) current() (net.Conn, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.host, p.came
}

// Read gives what the host sent; nobody there is the end of the file.
func (p *port) Read(b []byte) (int, error) {
	p.mu.Lock()
	if len(p.cut) > 0 {
		n := copy(b, p.cut)
		p.cut = p.cut[n:]
		p.mu.Unlock()
		return n, nil
	}
	p.mu.Unlock()
	c, _ := p.current()
	if c == nil {
		return 0, io.EOF
	}
	n, err := c.Read(b)
	if err != nil {
		return n, io.EOF
	}
	return n, nil
}

// Write waits for a host.
func (p *port) Write(b []byte) (int, error) {
	for {
		c, came := p.current()
		if c != nil {
			if _, err := c.Write(b); err == nil {
				return len(b), nil
			}
		}
		select {
		case <-came:
		case <-p.gone:
			return 0, net.ErrClosed
		}
	}
}

func (p *port) Close() error {
	p.once.Do(func() { close(p.gone) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.host != nil {
		p.host.Close()
	}
	return nil
}

// guestOn runs the guest's end of p.
func guestOn(t *testing.T, p *port) *Guest {
	t.Helper()
	g := NewGuest(p, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return g
}

// echo answers all connections of s with what they say.
func echo(s *Session) {
	for {
		_, c, err := s.Accept()
		if err != nil {
			return
		}
		go func() {
			io.Copy(c, c)
			c.Close()
		}()
	}
}

func hostOn(t *testing.T, p *port) *Session {
	t.Helper()
	s, err := Host(t.Context(), p.connect())
	if err != nil {
		t.Fatal(err)
	}
	go echo(s)
	return s
}

// talk sends text on a new connection and reads it back.
func talk(t *testing.T, g *Guest, text []byte) {
	t.Helper()
	if back, err := try(t, g, text); err != nil || !bytes.Equal(back, text) {
		t.Fatalf("sent %d bytes, got %d back, %v", len(text), len(back), err)
	}
}

// talkAgain talks in the session to come: the guest may not have noticed yet
// that the one before is over.
func talkAgain(t *testing.T, g *Guest) {
	t.Helper()
	for {
		if back, err := try(t, g, []byte("again")); err == nil && string(back) == "again" {
			return
		}
	}
}

func try(t *testing.T, g *Guest, text []byte) ([]byte, error) {
	t.Helper()
	c, err := g.Dial(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		c.Write(text)
		c.(interface{ CloseWrite() error }).CloseWrite()
	}()
	return io.ReadAll(c)
}

func TestEcho(t *testing.T) {
	p := newPort()
	g := guestOn(t, p)
	s := hostOn(t, p)
	defer s.Close()
	all := make([]byte, 1<<20)
	for i := range all {
		all[i] = byte(i ^ i>>8)
	}
	talk(t, g, []byte("hello"))
	talk(t, g, all)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { talk(t, g, all[:100_000]) })
	}
	wg.Wait()
}

// TestHead sends what looks like the head of a message with a body to come.
func TestHead(t *testing.T) {
	p := newPort()
	g := guestOn(t, p)
	s := hostOn(t, p)
	defer s.Close()
	c, err := g.Dial(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := []byte{muxHead - 1: 1}
	for range 3 {
		back := make([]byte, len(text))
		if _, err := c.Write(text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, text) {
			t.Fatalf("got %q, %v", back, err)
		}
	}
}

func TestPort(t *testing.T) {
	p := newPort()
	g := guestOn(t, p)
	s, err := Host(t.Context(), p.connect())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go g.Dial(t.Context(), 5002)
	if port, c, err := s.Accept(); err != nil || port != 5002 || c == nil {
		t.Fatalf("accepted port %d, %v", port, err)
	}
}

// TestNewHost has one host after the other, the later ones with the bytes of
// an earlier session still in the port.
func TestNewHost(t *testing.T) {
	p := newPort()
	g := guestOn(t, p)
	for i := range 5 {
		s := hostOn(t, p)
		talkAgain(t, g)
		c, err := g.Dial(t.Context(), 5000)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("read from a session that is over")
		}
		p.mu.Lock()
		p.cut = appendFrame(nil, frame{data, uint64(i), []byte("of a session that is over")})
		p.cut = p.cut[:len(p.cut)-5]
		p.mu.Unlock()
	}
}

// TestNewGuest has a guest that was rebooted.
func TestNewGuest(t *testing.T) {
	p := newPort()
	old := guestOn(t, p)
	s := hostOn(t, p)
	talk(t, old, []byte("hello"))
	old.l.send(frame{kind: call}, false) // as a new program would
	<-s.ctx.Done()
	s.Close()
	s = hostOn(t, p)
	defer s.Close()
	talkAgain(t, old)
}

// TestLateNews has a guest hear that a host has hung up when the next one has
// said hello already: what a port carries and what it says of its host come to
// a guest by two ways.
func TestLateNews(t *testing.T) {
	p := newPort()
	g := guestOn(t, p)
	s := hostOn(t, p)
	c, err := g.Dial(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	p.host.SetReadDeadline(time.Unix(1, 0)) // the guest reads the end of the file
	c.Read(make([]byte, 1))
	p.host.SetReadDeadline(time.Time{})
	<-s.ctx.Done()
	s.Close()
	s = hostOn(t, p)
	defer s.Close()
	talkAgain(t, g)
}

func TestHostEnds(t *testing.T) {
	p := newPort()
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := Host(ctx, p.connect()); err == nil {
		t.Fatal("a session with nobody")
	}
	g := guestOn(t, p)
	ctx, cancel = context.WithCancel(t.Context())
	s, err := Host(ctx, p.connect())
	if err != nil {
		t.Fatal(err)
	}
	dialled, talked := make(chan struct{}), make(chan error)
	go func() {
		c, err := g.Dial(t.Context(), 1)
		close(dialled)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		talked <- err
	}()
	s.Accept()
	<-dialled // or it would wait for the next session
	cancel()
	<-s.ctx.Done()
	s.Close()
	if _, _, err := s.Accept(); err == nil {
		t.Error("accepted from a session that is over")
	}
	p.mu.Lock()
	p.host.Close()
	p.mu.Unlock()
	if err := <-talked; err == nil {
		t.Error("the guest's connection lives on")
	}
}

func TestClock(t *testing.T) {
	p := newPort()
	told := make(chan time.Time, 1)
	g := NewGuest(p, func(at time.Time) { told <- at })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { g.Run(ctx); close(done) }()
	s := hostOn(t, p)
	if at := <-told; time.Since(at).Abs() > time.Minute { // the clock may be set meanwhile
		t.Errorf("told %v", at)
	}
	cancel()
	s.Close()
	<-done
}

func TestFrames(t *testing.T) {
	var line []byte
	sent := []frame{
		{call, 0, nil}, {data, 7, []byte{end, escape, end ^ flip, escape ^ flip, 0}},
		{data, 0x7e7d7e7d7e7d7e7d, bytes.Repeat([]byte{end}, maxData)}, {hello, 1, []byte("12345678")},
	}
	for _, f := range sent {
		line = append(line, "junk\x7d\x7e"...)
		line = append(line, end, end)
		line = appendFrame(line, f)
		line = append(line, bytes.Repeat([]byte{'x'}, 2*maxData)...)
		line = append(line, end)
	}
	r := reader{r: bufio.NewReader(bytes.NewReader(line))}
	for _, want := range sent {
		f, err := r.next()
		if err != nil || f.kind != want.kind || f.session != want.session || !bytes.Equal(f.data, want.data) {
			t.Fatalf("got kind %q, session %x, %d bytes, %v; want %q, %x, %d", f.kind, f.session, len(f.data), err, want.kind, want.session, len(want.data))
		}
	}
	if _, err := r.next(); err != io.EOF {
		t.Fatalf("at the end: %v", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("junk\x7e"), []byte("data"))
	f.Add([]byte{escape}, []byte{end, escape})
	f.Fuzz(func(t *testing.T, junk, text []byte) {
		if len(text) > maxData {
			return
		}
		b := append(append([]byte{}, junk...), end)
		b = appendFrame(b, frame{data, 42, text})
		r := reader{r: bufio.NewReader(bytes.NewReader(b))}
		for {
			got, err := r.next()
			if err != nil {
				t.Fatal("the frame after the junk is lost")
			}
			if got.kind == data && got.session == 42 && bytes.Equal(got.data, text) {
				return
			}
		}
	})
}
