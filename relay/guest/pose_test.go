package guest_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"hutch/fs"
	"hutch/relay/guest"
)

// TestPose has others connect while the agent is there, which answers: they are
// hung up on, and the agent is asked as before.
func TestPose(t *testing.T) {
	refused := make(chan bool, 100)
	g := guest.New()
	g.Refused = func() { refused <- true }
	t.Cleanup(func() { g.Close() })
	newLiar(t, g, honest())
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		here, there := sockets(t)
		defer there.Close()
		g.Attach(here)
		<-refused
		if _, err := io.ReadAll(there); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := g.Root().Stat(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMute has another connect while the agent's connection answers nothing
// any more: it takes its place.
func TestMute(t *testing.T) {
	g := newGuest(t)
	answers := honest()
	delete(answers, 24)
	newLiar(t, g, answers)
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Hurry()
	for {
		newLiar(t, g, honest()) // one after the other: here each has little time, too
		_, err := g.Root().Stat(t.Context())
		if err == nil {
			return
		}
		if !errors.Is(err, fs.ErrIO) && !errors.Is(err, fs.ErrTimedOut) {
			t.Fatal(err)
		}
	}
}
