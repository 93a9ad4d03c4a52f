package alone

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// TestEnd has the end of the input end everything within 2 s, though programs go on
// after the end of theirs, and a call hangs.
func TestEnd(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "stubborn", `{"name":"hangs"},{"name":"text"}`)+`}`)
	c.call("k:text")
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:hangs"}}`)
	c.log.await(t, "k: hangs")
	c.put(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"k:text"}}`)
	began := time.Now()
	c.in.Close()
	if got := c.next(); !strings.Contains(got, `"id":2,"result"`) {
		t.Error(got)
	}
	select {
	case err := <-c.ended:
		c.ended <- err
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestUnread has a client that says much and reads nothing: it is read no further
// than answers can be written, and the end comes all the same.
func TestUnread(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fromClient, in := io.Pipe()
	_, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, Config{Aggregator: self, Log: io.Discard}, fromClient, toClient) }()
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	read := make(chan error, 1)
	go func() { // more than is read ahead
		_, err := io.WriteString(in, strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 10_000))
		read <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	fromClient.Close()
	if err := <-read; err == nil {
		t.Error("all was read, though nothing was answered")
	}
}
