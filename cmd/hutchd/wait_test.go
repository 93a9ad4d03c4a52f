//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// awaitRead waits until a process is in a read of its standard input: the
// kernel has no event for that, so its state is looked at again and again.
func awaitRead(t testing.TB, pid int) {
	t.Helper()
	poll(t, "a read that blocks", func() bool {
		at, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		return strings.HasPrefix(string(at), fmt.Sprintf("%d 0x0 ", unix.SYS_READ))
	})
}

// poll waits for what has no event to wait for.
func poll(t testing.TB, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for !there() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no %s after %v", what, limit)
		}
	}
}

// A text is what a program printed so far.
type text struct {
	t       testing.TB
	chunks  chan string
	printed string
}

// printing starts cmd, and returns what it prints.
func printing(t testing.TB, cmd *exec.Cmd) *text {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x := &text{t: t, chunks: make(chan string, 1000)}
	go func() {
		defer close(x.chunks)
		p := make([]byte, 64<<10)
		for {
			n, err := out.Read(p)
			if n > 0 {
				x.chunks <- string(p[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return x
}

// until waits for more to be printed until what was printed has want.
func (x *text) until(want string) {
	x.t.Helper()
	x.await(want, func() bool { return strings.Contains(x.printed, want) })
}

// untilLine waits until what was printed has a whole line with want.
func (x *text) untilLine(want string) {
	x.t.Helper()
	x.await(want, func() bool {
		_, rest, there := strings.Cut(x.printed, want)
		return there && strings.Contains(rest, "\n")
	})
}

// await waits for more to be printed until there says that want was.
func (x *text) await(want string, there func() bool) {
	x.t.Helper()
	late := time.After(limit)
	for !there() {
		select {
		case chunk, ok := <-x.chunks:
			if !ok {
				x.t.Fatalf("ended without %q; printed %q", want, x.printed)
			}
			x.printed += chunk
		case <-late:
			x.t.Fatalf("does not print %q; printed %q", want, x.printed)
		}
	}
}

// rest waits for the end of what is printed.
func (x *text) rest() string {
	x.t.Helper()
	late := time.After(limit)
	for {
		select {
		case chunk, ok := <-x.chunks:
			if !ok {
				return x.printed
			}
			x.printed += chunk
		case <-late:
			x.t.Fatalf("does not end; printed %q", x.printed)
		}
	}
}
