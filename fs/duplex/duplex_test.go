package duplex

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (near, far net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err == nil {
		far, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func TestJoin(t *testing.T) {
	for _, how := range []string{"both end", "one has no halves", "the context ends"} {
		t.Run(how, func(t *testing.T) {
			client, a := pair(t)
			b, server := pair(t)
			if how == "one has no halves" {
				b = struct{ net.Conn }{b}
			}
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				Join(ctx, a, b)
			}()
			text := strings.Repeat("hello", 100000)
			go func() {
				io.WriteString(client, text)
				switch how {
				case "the context ends":
					io.ReadFull(client, make([]byte, 1)) // all of it has come
					cancel()
				default:
					client.(*net.TCPConn).CloseWrite()
				}
			}()
			got := make([]byte, len(text))
			if _, err := io.ReadFull(server, got); err != nil || string(got) != text {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if how == "the context ends" {
				io.WriteString(server, "x")
			}
			if rest, _ := io.ReadAll(server); len(rest) > 0 {
				t.Errorf("then %q", rest)
			}
			if how == "both end" {
				io.WriteString(server, "answer")
				server.Close()
				if answer, err := io.ReadAll(client); string(answer) != "answer" || err != nil {
					t.Errorf("%q %v", answer, err)
				}
			}
			<-over
			cancel()
		})
	}
}
