package gateway

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"hutch/aggd/programs"
	"hutch/mcpd"
)

// TestLinkUnread ends links of which nobody reads what they say.
func TestLinkUnread(t *testing.T) {
	s := &Service{Log: slog.New(slog.DiscardHandler)}
	name := func() string { return "x" }
	g := New(s, Config{Kind: Server, Name: name, Dir: t.TempDir(), Profile: name, Endpoint: mcpd.Config{Work: t.TempDir()}})
	defer g.Close()
	in, stdin, err1 := os.Pipe()
	stdout, out, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	defer stdout.Close()
	how := make(chan string, 1)
	l, err := g.Link(programs.Start{Server: "x", In: in, Out: out, Gone: func(s string) { how <- s }}, "vm y")
	if err != nil {
		t.Fatal(err)
	}
	go io.WriteString(stdin, strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 100_000))
	if _, err := io.ReadFull(stdout, make([]byte, 1<<20)); err != nil { // more waits for room by now
		t.Fatal(err)
	}
	l.Terminate()
	if !programs.Await(l, 30*time.Second) {
		t.Fatal("it goes on")
	}
	if got := <-how; got != "it was ended" {
		t.Error(got)
	}
}
