package guest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"hutch/relay/guest"
)

// TestLostConnections reads a long stream over many connections.
func TestLostConnections(t *testing.T) {
	p := newPair(t)
	const size = 32 << 20
	e := p.exec("t", "limit 1MiB", "exec cat")
	out, wait := open(t, e, "stdout", os.O_RDONLY), open(t, e, "wait", os.O_RDONLY)
	in, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", pid(t, e)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Ctl(t.Context(), "eof"); err != nil { // in stays
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		defer in.Close()
		io.CopyN(in, rand.NewChaCha8([32]byte{7}), size)
	})
	ended := make(chan string, 1)
	work.Go(func() {
		b, err := io.ReadAll(wait)
		if err != nil {
			t.Error(err)
		}
		ended <- string(b)
	})
	want := rand.NewChaCha8([32]byte{7})
	got, expect := make([]byte, 128<<10), make([]byte, 128<<10)
	total, next := 0, 0
	guestEnd := net.Conn(nil)
	for {
		if total >= next {
			if guestEnd != nil {
				guestEnd.Close()
			}
			guestEnd = p.connect()
			next += 1 << 20
		}
		n, err := out.Read(got)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		want.Read(expect[:n])
		if !bytes.Equal(got[:n], expect[:n]) {
			t.Fatalf("differs after %d", total)
		}
		total += n
	}
	work.Wait()
	if total != size {
		t.Errorf("%d bytes came", total)
	}
	if line := <-ended; !strings.HasPrefix(line, "0 ") {
		t.Errorf("wait %q", line)
	}
}

// pid returns the number of an exec's process.
func pid(t testing.TB, e *guest.Exec) int {
	s, err := e.Read(t.Context(), "status")
	if err != nil {
		t.Error(err)
	}
	var n int
	if _, rest, ok := strings.Cut(s, "pid "); ok {
		fmt.Sscan(rest, &n)
	}
	return n
}

// TestBlockedReadOutlivesConnection has a reader wait while there is none.
func TestBlockedReadOutlivesConnection(t *testing.T) {
	p := newPair(t)
	e := p.exec("t", "exec cat")
	out := open(t, e, "stdout", os.O_RDONLY)
	got := make(chan string)
	go func() {
		b, err := io.ReadAll(out)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	}()
	in := open(t, e, "stdin", os.O_WRONLY)
	io.WriteString(in, "one ")
	p.connect() // the newest wins
	io.WriteString(in, "two")
	in.Close()
	if s := <-got; s != "one two" {
		t.Errorf("got %q", s)
	}
}

// TestWaitWhileAway asks for a command's end when the guest has just left, by
// a connection whose end nobody has seen yet.
func TestWaitWhileAway(t *testing.T) {
	p := newPair(t)
	p.connect()
	e := p.exec("t", "sh exit 3")
	asleep := errors.New("asleep")
	p.g.Leave(asleep)
	if _, err := e.Open(t.Context(), "wait", os.O_RDONLY); !errors.Is(err, asleep) {
		t.Errorf("open: %v", err)
	}
	if err := e.Ctl(t.Context(), "kill"); !errors.Is(err, asleep) {
		t.Errorf("ctl: %v", err)
	}
	ended := make(chan string, 1)
	go func() {
		line, err := e.Wait(t.Context())
		ended <- fmt.Sprint(line, err)
	}()
	p.g.Return()
	p.connect()
	if s := <-ended; !strings.HasPrefix(s, "3 ") || !strings.HasSuffix(s, "<nil>") {
		t.Errorf("wait %q", s)
	}
}
