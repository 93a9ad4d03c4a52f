package line

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// A stranger is a guest whose root speaks on the port itself.
type stranger struct {
	*line
	session uint64
	t       *testing.T
}

// strangerOn returns a stranger and the session that the host has with it.
func strangerOn(t *testing.T) (*stranger, *Session) {
	t.Helper()
	near, far := net.Pipe()
	x := &stranger{line: newLine(far), t: t}
	came := make(chan *Session, 1)
	go func() {
		s, err := Host(t.Context(), near)
		if err != nil {
			t.Error(err)
		}
		came <- s
	}()
	f, err := x.in.next()
	if err != nil {
		t.Fatal(err)
	}
	x.session = f.session
	x.send(frame{hello, x.session, nil}, false)
	s := <-came
	t.Cleanup(func() {
		s.Close()
		x.close(io.EOF)
		x.work.Wait()
	})
	return x, s
}

// say sends a message of yamux.
func (x *stranger) say(kind, flags byte, stream, length uint32, body ...byte) {
	x.t.Helper()
	b := binary.BigEndian.AppendUint32([]byte{0, kind, 0, flags}, stream)
	b = append(binary.BigEndian.AppendUint32(b, length), body...)
	if err := x.send(frame{data, x.session, b}, false); err != nil {
		x.t.Fatal(err)
	}
}

const muxSYN = 1 // a flag

// dial opens a stream.
func (x *stranger) dial(stream uint32) {
	x.t.Helper()
	x.say(muxData, muxSYN, stream, 4, 0, 0, 0, 1)
}

// TestPings has a guest that pings and does not read the answers.
func TestPings(t *testing.T) {
	x, s := strangerOn(t)
	before := runtime.NumGoroutine()
	ping := []byte{0, muxPing, 0, muxSYN, 0, 0, 0, 0, 0, 0, 0, 0}
	for range 10 { // the answers are more than a line keeps
		x.send(frame{data, x.session, bytes.Repeat(ping, 5000)}, false)
	}
	x.dial(1)
	go io.Copy(io.Discard, x.in.r) // answers go out from here on
	if _, _, err := s.Accept(); err != nil {
		t.Fatal(err)
	}
	if n := runtime.NumGoroutine() - before; n > 100 {
		t.Errorf("%d goroutines more", n)
	}
}

// TestClosed has a guest that never closes what the host has closed.
func TestClosed(t *testing.T) {
	x, s := strangerOn(t)
	go io.Copy(io.Discard, x.in.r)
	for n := range uint32(100) {
		x.dial(2*n + 1)
		_, c, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		x.say(muxData, 0, 2*n+1, 4, []byte("more")...)
		c.Close()
	}
	x.dial(1 << 20)
	if _, _, err := s.Accept(); err != nil {
		t.Fatal(err)
	}
	if n := s.mux.NumStreams(); n != 1 {
		t.Errorf("%d connections are kept, of one that is open", n)
	}
}

// TestPieces has messages come in pieces that end anywhere.
func TestPieces(t *testing.T) {
	in, out := net.Pipe()
	g := gate{to: out}
	message := func(kind byte, body string) []byte {
		b := append([]byte{0, kind, 0, 0, 0, 0, 0, 9}, 0, 0, 0, byte(len(body)))
		return append(b, body...)
	}
	ping, text := message(muxPing, ""), message(muxData, "some text")
	reset := []byte{0, muxWindow, 0, muxReset, 0, 0, 0, 7, 0, 0, 0, 0}
	var sent []byte
	for range 3 {
		sent = append(append(append(sent, text...), ping...), text...)
	}
	g.forget(7)
	go func() {
		for i := 0; len(sent) > 0; i++ {
			n := min(len(sent), i%17)
			g.pass(sent[:n])
			sent = sent[n:]
		}
		out.Close()
	}()
	in.SetReadDeadline(time.Now().Add(time.Minute))
	got, err := io.ReadAll(in)
	want := string(reset)
	for range 6 {
		want += string(text)
	}
	if string(got) != want || err != nil {
		t.Errorf("passed on %q, %v", got, err)
	}
}
