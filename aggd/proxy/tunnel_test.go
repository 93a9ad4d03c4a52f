package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

func TestTunnel(t *testing.T) {
	s := serve(t, true, echo)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		g := start(t, wire.Network{Allow: []string{s.at(host)}, Private: []string{"127.0.0.1", "localhost"}})
		c := g.client()
		resp, err := c.Post("https://"+s.at(host)+"/x", "text/plain", strings.NewReader(strings.Repeat("y", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(body) != 1<<20+5 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		if b := <-g.begun; b.Host != host || b.Decision != wire.Allowed {
			t.Errorf("began %+v", b)
		}
		c.CloseIdleConnections()
		e := g.ended()
		if e.Method != "CONNECT" || e.Host != host || e.Decision != wire.Allowed || e.Sent < 1<<20 || e.Received < 1<<20 || e.Status != 200 || e.Path != "" {
			t.Errorf("%+v", e)
		}
	}
}

// TestTunnelTakesTLSOnly has tunnels that carry something else, or go elsewhere.
func TestTunnelTakesTLSOnly(t *testing.T) {
	s := serve(t, true, echo)
	g := start(t, wire.Network{Allow: []string{s.at("localhost")}, Private: []string{"localhost"}})
	open := func() *net.UnixConn {
		c := g.dial()
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", s.at("localhost"))
		want := "HTTP/1.1 200 Connection established\r\n\r\n"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
		return c
	}
	for _, text := range []string{"GETTING / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x00\x05\x02aaaa", "\x16\x03\x01\x00\x04\x01\x00\x00\x00"} {
		c := open()
		io.WriteString(c, text)
		b, _ := io.ReadAll(c)
		c.Close()
		if !strings.Contains(string(b), "a tunnel must carry TLS or HTTP") {
			t.Errorf("%q: %q", text, b)
		}
		if e := g.ended(); e.Decision != wire.Denied || e.Rule != "tls" || e.Sent != 0 || e.Status != 403 {
			t.Errorf("%+v", e)
		}
	}
	for name, ok := range map[string]bool{"localhost": true, "LOCALHOST": true, "other.example": false, "localhost.evil.example": false} {
		c := open()
		err := tls.Client(&slow{c}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		c.Close()
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "access denied") {
			t.Errorf("%s: %v", name, err)
		}
		if e := g.ended(); (e.Decision == wire.Allowed) != ok || !ok && (!strings.Contains(e.Reason, name) || e.Status != 403) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if asked := s.requests(); len(asked) > 0 {
		t.Errorf("the server was asked %v", asked)
	}
}

// slow writes a byte at a time.
type slow struct{ net.Conn }

func (s *slow) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := s.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestWebSocket(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			echo(w, r)
			return
		}
		c, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.CopyN(c, buf, 5)
	})
	g := start(t, wire.Network{Allow: []string{s.at("127.0.0.1")}, Private: []string{"127.0.0.1"}})
	c := g.dial()
	defer c.Close()
	fmt.Fprintf(c, "GET %s/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", s.URL)
	in := bufio.NewReader(c)
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	io.WriteString(c, "hello")
	if b, err := io.ReadAll(in); string(b) != "hello" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	c.Close()
	if e := g.ended(); e.Status != 101 || e.Sent != 5 || e.Received != 5 || e.Decision != wire.Allowed {
		t.Errorf("%+v", e)
	}
	a := g.raw("GET " + s.URL + "/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n")
	if !strings.HasPrefix(a, "HTTP/1.1 418 ") || !strings.Contains(a, "[] [] [] [] []") {
		t.Errorf("%q", a)
	}
}

// TestPlainTunnel has programs make a tunnel for http, too, as undici does: each request
// in it is one of its own.
func TestPlainTunnel(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{Allow: []string{s.at("localhost")}, Private: []string{"localhost"}})
	c := g.dial()
	in := bufio.NewReader(c)
	read := func(method string) *http.Response {
		t.Helper()
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if method != http.MethodConnect {
			resp.Body = io.NopCloser(strings.NewReader(func() string { b, _ := io.ReadAll(resp.Body); return string(b) }()))
		}
		return resp
	}
	io.WriteString(c, "\x00CAPSEM_META:node\nCONNECT "+s.at("localhost")+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp := read(http.MethodConnect); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	for i, path := range []string{"/a?q=1", "/b", "http://" + s.at("localhost") + "/c"} {
		io.WriteString(c, "PUT "+path+" HTTP/1.1\r\nHost: other.example\r\nContent-Length: 5\r\n\r\nhello")
		resp := read("PUT")
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusTeapot || string(b) != "PUT hello" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, b)
		}
		if i == 0 {
			if e := g.ended(); e.Method != "CONNECT" || e.Decision != wire.Allowed || e.Status != 200 {
				t.Errorf("the tunnel: %+v", e)
			}
		}
		if e := g.ended(); e.Host != "localhost" || e.Method != "PUT" || e.Status != http.StatusTeapot || e.Sent != 5 || e.Process != "node" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	io.WriteString(c, "GET http://else.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp := read("GET"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("elsewhere: %s", resp.Status)
	}
	if e := g.ended(); e.Decision != wire.Denied || e.Host != "else.example" || e.Status != http.StatusBadRequest {
		t.Errorf("elsewhere: %+v", e)
	}
	c.Close()
	want := []string{"PUT " + s.at("localhost") + "/a?q=1", "PUT " + s.at("localhost") + "/b", "PUT " + s.at("localhost") + "/c"}
	if asked := s.requests(); !slices.Equal(asked, want) {
		t.Errorf("the server was asked %q", asked)
	}
}

// TestOriginForm has programs name the server in the Host header alone.
func TestOriginForm(t *testing.T) {
	s := serve(t, false, echo)
	g := start(t, wire.Network{Allow: []string{s.at("localhost")}, Private: []string{"localhost"}})
	answer := g.raw("GET /a HTTP/1.1\r\nHost: " + s.at("localhost") + "\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 418 ") {
		t.Errorf("answered %q", answer)
	}
	if e := g.ended(); e.Host != "localhost" || e.Path != "/a" || e.Decision != wire.Allowed || e.Status != 418 {
		t.Errorf("%+v", e)
	}
	answer = g.raw("GET /a HTTP/1.1\r\nHost: other.example\r\n\r\n")
	if e := g.ended(); !strings.HasPrefix(answer, "HTTP/1.1 403 ") || e.Host != "other.example" || e.Decision != wire.Denied || e.Status != 403 {
		t.Errorf("%+v, %q", e, answer)
	}
}
