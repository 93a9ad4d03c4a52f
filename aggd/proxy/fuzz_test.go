package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

// FuzzRequest writes anything to the proxy: no server sees a request for a host
// that was not allowed.
func FuzzRequest(f *testing.F) {
	s := serve(f, false, echo)
	at := s.at("127.0.0.1")
	g := start(f, wire.Network{Allow: []string{at}, Private: []string{"127.0.0.1", "localhost"}})
	for _, text := range []string{
		"GET http://AT/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT AT HTTP/1.1\r\n\r\n\x16\x03\x01", "\x00CAPSEM_META:x\nGET http://AT/ HTTP/1.0\r\n\r\n",
		"POST http://AT/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://localhost/ HTTP/1.1\r\nHost: AT\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := g.dial()
		defer c.Close()
		c.Write(bytes.ReplaceAll(text, []byte("AT"), []byte(at)))
		c.CloseWrite()
		io.Copy(io.Discard, c)
		for _, a := range s.requests() {
			if _, where, _ := strings.Cut(a, " "); !strings.HasPrefix(where, at) {
				t.Errorf("the server was asked %q", a)
			}
		}
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		for len(g.events)+len(g.begun) > 0 {
			select {
			case <-g.events:
			case <-g.begun:
			}
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"))
	said := &sayer{recorder: recorder{in: strings.NewReader("")}}
	tls.Client(said, &tls.Config{ServerName: "a.example"}).Handshake()
	if name, _, err := clientHello(bytes.NewReader(said.text)); name != "a.example" || err != nil {
		f.Fatalf("%q, %v", name, err)
	}
	f.Add(said.text)
	f.Fuzz(func(t *testing.T, text []byte) {
		_, read, err := clientHello(bytes.NewReader(text))
		if !bytes.HasPrefix(text, read) {
			t.Errorf("read %q of %q", read, text)
		}
		if err == nil && len(read) == 0 {
			t.Error("a hello of nothing")
		}
	})
}

// A sayer keeps what was written.
type sayer struct {
	recorder
	text []byte
}

func (s *sayer) Write(p []byte) (int, error) {
	s.text = append(s.text, p...)
	return len(p), nil
}
