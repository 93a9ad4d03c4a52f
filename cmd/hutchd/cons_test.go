//go:build linux

package main_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestConsoleBothWays has one descriptor of the console read and written at
// once, as a terminal program has it: neither waits for the other, and what is
// written moves nothing of what is read.
func TestConsoleBothWays(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.vm("dev")
	f, err := os.OpenFile(s.path("vm/dev/cons"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	screen := &text{t: t, chunks: make(chan string, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(screen.chunks)
		for p := make([]byte, 4096); ; {
			n, err := f.Read(p)
			if n == 0 || err != nil {
				return
			}
			screen.chunks <- string(p[:n])
			if strings.Contains(string(p[:n]), "good bye\r\n") {
				return
			}
		}
	}()
	late := time.AfterFunc(limit, func() { s.signal(syscall.SIGKILL) }) // nothing else ends a write that waits for a read
	defer late.Stop()
	for i := range 5 {
		if _, err := fmt.Fprintf(f, "echo li''ne %d of the console\n", i); err != nil {
			t.Fatal(err)
		}
		screen.until(fmt.Sprintf("line %d of the console\r\n", i))
	}
	fmt.Fprintln(f, "echo go''od bye")
	screen.until("good bye\r\n")
	<-read
	f.Close()
	if n := strings.Count(screen.printed, "line "); n != 5 || !strings.Contains(screen.printed, "echo li''ne 4 of") {
		t.Errorf("%d lines, want 5 and what was typed:\n%s", n, screen.printed)
	}
}
