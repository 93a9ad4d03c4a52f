//go:build linux

package main_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// TestRunTerminal runs a shell on a terminal, with its size, its interrupts
// and its end.
func TestRunTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	cmd := s.command("hutch", "run", "sh")
	master, screen := onTerminal(t, cmd)
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

// TestTerminalWithoutSize runs commands on a terminal whose size nobody has
// said, as it is new.
func TestTerminalWithoutSize(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	for _, args := range [][]string{{"run"}, {"exec", "dev"}} {
		cmd := s.command("hutch", append(args, "stty", "size")...)
		_, screen := onTerminalOf(t, cmd, pty.Winsize{})
		screen.rest()
		if cmd.Wait(); ended(cmd) != "0" || screen.printed != "24 80\r\n" {
			t.Errorf("%q ended %s, printed %q", args, ended(cmd), screen.printed)
		}
	}
}

// onTerminal starts cmd on a terminal of 33 lines of 77 columns, and returns
// its other end and what it shows.
func onTerminal(t *testing.T, cmd *exec.Cmd) (*os.File, *text) {
	t.Helper()
	return onTerminalOf(t, cmd, pty.Winsize{Rows: 33, Cols: 77})
}

func onTerminalOf(t *testing.T, cmd *exec.Cmd, size pty.Winsize) (*os.File, *text) {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &size); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0) // what others start is not to hold it
	if err != nil {
		t.Fatal(err)
	}
	syscall.SetNonblock(fd, true)
	other := os.NewFile(uintptr(fd), "terminal") // of which a Close ends a Read
	t.Cleanup(func() { other.Close() })
	screen := &text{t: t, chunks: make(chan string, 1000)}
	go func() {
		defer close(screen.chunks)
		p := make([]byte, 4096)
		for {
			n, err := other.Read(p)
			if n > 0 {
				screen.chunks <- string(p[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return other, screen
}

// TestRunInterrupts has a command that does nothing about interrupts ended
// by those who ask for it often enough, on a terminal and elsewhere.
func TestRunInterrupts(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	for _, args := range [][]string{{"run"}, {"exec", "dev"}} {
		for _, line := range []string{
			`trap "" INT; echo up; exec sleep 1000`,
			`trap "" INT; echo up; while :; do sleep 1; echo tick; done`,
		} {
			args := append(slices.Clone(args), "sh", "-c", line)
			cmd := s.command("hutch", args...)
			printed := printing(t, cmd)
			printed.until("up\n")
			n := again(func() { cmd.Process.Signal(syscall.SIGINT) }, printed)
			if cmd.Wait(); ended(cmd) != "interrupt" || n < 3 {
				t.Errorf("%q ended %s by %d signals", args, ended(cmd), n)
			}
			cmd = s.command("hutch", args...)
			master, screen := onTerminal(t, cmd)
			screen.until("up\r\n")
			n = again(func() { master.WriteString("\x03") }, screen)
			if cmd.Wait(); ended(cmd) != "interrupt" || n < 3 || !strings.Contains(screen.printed, "ended at the third") {
				t.Errorf("%q on a terminal ended %s by %d keys: %s", args, ended(cmd), n, screen.printed)
			}
		}
	}
	poll(t, "end of all sandboxes", func() bool { return strings.Count(s.read("status"), "\n") == 1 })
	poll(t, "end of all commands", func() bool { return strings.TrimSpace(s.names("vm/dev/exec")) == "clone" })
}

// again does something until what is shown ends, and returns how often.
func again(do func(), shown *text) int {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for n := 0; ; {
		select {
		case chunk, ok := <-shown.chunks:
			if shown.printed += chunk; !ok {
				return n
			}
		case <-tick.C:
			do()
			n++
		case <-late:
			shown.t.Fatalf("goes on after %d times; shown is %q", n, shown.printed)
		}
	}
}

// TestRunHangup takes the terminal away from commands that do not care.
func TestRunHangup(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	// Under nohup we ignore hang-ups, and so would what we start, if we did not
	// ask for them.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	s := serve(t, false)
	s.vm("dev")
	for _, args := range [][]string{{"run"}, {"exec", "dev"}} {
		cmd := s.command("hutch", append(args, "sh", "-c", `trap "" HUP; echo up; exec sleep 1000`)...)
		master, screen := onTerminal(t, cmd)
		screen.until("up\r\n")
		master.Close()
		if cmd.Wait(); ended(cmd) != "hangup" {
			t.Errorf("%q ended %s", args, ended(cmd))
		}
	}
	poll(t, "end of all sandboxes", func() bool { return strings.Count(s.read("status"), "\n") == 1 })
	poll(t, "end of all commands", func() bool { return strings.TrimSpace(s.names("vm/dev/exec")) == "clone" })
}

// TestDemoUnread has nobody read on what the demo shows.
func TestDemoUnread(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), need.Programs(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "hutch"), "demo")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "TMPDIR="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for range 3 {
		if line, err := lines.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	out.Close()
	if cmd.Wait(); ended(cmd) != "141" { // as shells have it for SIGPIPE
		t.Errorf("ended %s", ended(cmd))
	}
	for pid, line := range processes(dir + "/") {
		t.Errorf("left process %d %s", pid, line)
		syscall.Kill(pid, syscall.SIGTERM)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), dir+"/") {
		t.Error("left mounted")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
