//go:build linux

package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// TestRunTerminal runs a shell on a terminal, with its size, its interrupts
// and its end.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	cmd := s.command("hutch", "run", "sh")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	screen := &text{t: t, chunks: make(chan string, 1000)}
	go func() {
		defer close(screen.chunks)
		p := make([]byte, 4096)
		for {
			n, err := master.Read(p)
			if n > 0 {
				screen.chunks <- string(p[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	say := func(line string) {
		t.Helper()
		if _, err := master.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	screen.until("# ") // the shell's prompt; root's, in the sandbox
	say("stty size; tty\r")
	screen.until("33 77\r\n")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 44, Cols: 88}); err != nil {
		t.Fatal(err)
	}
	say("while test \"$(stty size)\" != '44 88'; do sleep 0.01; done; echo re''sized\r")
	screen.until("resized\r\n")
	say("sh -c 'echo be\"\"fore; exec sleep 1000'\r") // printed when the terminal is the command's
	screen.until("before\r\n")
	say("\x03")
	say("echo st''atus $?\r")
	screen.until("status 130\r\n")
	say("exit 7\r")
	screen.rest()
	if cmd.Wait(); ended(cmd) != "7" {
		t.Errorf("ended %s:\n%s", ended(cmd), strings.ReplaceAll(screen.printed, "\r", ""))
	}
}
