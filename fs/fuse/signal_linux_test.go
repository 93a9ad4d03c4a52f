package fuse

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// shells are how each shell starts a job in the background that ends when it
// is told to, sends a slow message meanwhile, and tells how that went.
var shells = []struct {
	name   string
	flags  []string // of an interactive one
	script string
}{
	{"dash", []string{"-i"}, `cat %[1]s & echo job $! end; echo slow >%[2]s; echo ended $? end`},
	{"bash", []string{"--norc", "--noediting", "-i"}, `cat %[1]s & echo job $! end; echo slow >%[2]s; echo ended $? end`},
	{"zsh", []string{"-f", "-i", "+Z"}, `cat %[1]s & echo job $! end; echo slow >%[2]s; echo ended $? end`},
	{"fish", []string{"--no-config", "-i"}, `cat %[1]s &; echo job $last_pid end; echo slow >%[2]s; echo ended $status end`},
	{"rc", nil, `cat %[1]s & echo job $apid end; echo slow >%[2]s; x=$status; if(~ $x '' 0 '0|0') echo ended 0 end; if not echo ended $x end`},
}

// A screen is what a program has printed.
type screen struct {
	t *testing.T

	mu   sync.Mutex // guards text
	text string
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// word waits for a line "before WORD end", and returns the word.
func (s *screen) word(before string) (word string) {
	s.t.Helper()
	soon(s.t, func() bool {
		for line := range strings.SplitSeq(strings.ReplaceAll(s.String(), "\r", "\n"), "\n") {
			if i := strings.LastIndex(line, before+" "); i >= 0 {
				if w, ok := strings.CutSuffix(line[i+len(before)+1:], " end"); ok && !strings.ContainsAny(w, "$;") {
					word = w
				}
			}
		}
		return word != ""
	}, func() string { return before + ": " + s.String() })
	return word
}

// soon polls for up to a minute.
func soon(t *testing.T, cond func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what())
		}
	}
}

// A job that ends while a message is under way does not interrupt it, however
// long it takes; whoever types ^C does.
func TestMessageBesideJobs(t *testing.T) {
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) { besideJob(t, sh.name, nil, sh.script) })
		if sh.flags != nil {
			t.Run(sh.name+" -i", func(t *testing.T) { besideJob(t, sh.name, sh.flags, sh.script) })
		}
	}
}

// besideJob runs a script; with flags in an interactive shell.
func besideJob(t *testing.T, shell string, flags []string, script string) {
	need.Tool(t, shell)
	s := serving(t)
	s.do("linger 1ms")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	script = fmt.Sprintf(script, fifo, "ctl")
	out := &screen{t: t}
	cmd := s.command(shell, flags...)
	cmd.Dir = s.dir
	if flags == nil {
		cmd.Args = append(cmd.Args, "-c", script)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	} else {
		terminal := interactive(t, cmd, out)
		fmt.Fprint(terminal, script+"\r")
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	job, err := strconv.Atoi(out.word("job"))
	if err != nil {
		t.Fatal(err)
	}
	s.do("blocked 1")
	end, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	soon(t, func() bool { state := stateOf(job); return state == "" || state == "Z" }, func() string { return "the end of the job" })
	soon(t, func() bool { return told(cmd.Process.Pid) }, func() string { return "the signal of the job's end" })
	s.do("release")
	if status := out.word("ended"); status != "0" {
		t.Errorf("the message: status %s\n%s", status, out)
	}
}

// told says whether a shell that waits for an answer has had its request
// interrupted, which is when it can only be killed, or has no signal.
func told(pid int) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return stateOf(pid) == "D" || pendingSignals(string(status)) == 0
}

// interactive starts a shell on a terminal.
func interactive(t *testing.T, cmd *exec.Cmd, out io.Writer) *os.File {
	t.Helper()
	cmd.Env = append(os.Environ(), "TERM=dumb", "HOME="+t.TempDir())
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(out, terminal)
	}()
	t.Cleanup(func() {
		terminal.Close()
		<-read
	})
	return terminal
}

// A message that takes longer than a moment ends when its sender is told to.
func TestMessageInterrupted(t *testing.T) {
	need.Tool(t, "bash")
	s := serving(t)
	s.do("linger 1ms")
	out := &screen{t: t}
	cmd := s.command("bash", "--norc", "--noediting", "-i")
	cmd.Dir = s.dir
	terminal := interactive(t, cmd, out)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	fmt.Fprint(terminal, "echo slow >ctl\r")
	s.do("blocked 1")
	cmd.Process.Signal(syscall.SIGWINCH)
	soon(t, func() bool { return told(cmd.Process.Pid) }, func() string { return "SIGWINCH" })
	fmt.Fprint(terminal, "\x03")
	s.do("blocked 0")
	fmt.Fprint(terminal, "echo ended $? end\r")
	if status := out.word("ended"); status == "0" {
		t.Errorf("the message was not interrupted\n%s", out)
	}
	killed := s.command("dash", "-c", "echo slow >"+s.path("ctl"))
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	s.do("blocked 1")
	killed.Process.Kill()
	killed.Wait()
	s.do("blocked 0")
	if got := s.do("messages"); got != "" {
		t.Errorf("messages %q", got)
	}
}

func TestPendingSignals(t *testing.T) {
	for _, c := range []struct {
		status string
		want   uint64
	}{
		{"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000010000\nSigBlk:\t0000000000000000\n", 1 << 16},
		{"SigPnd:\t0000000000000100\nShdPnd:\t0000000000010002\nSigBlk:\t0000000000000002\n", 1<<8 | 1<<16},
		{"SigPnd:\t0\n", 0},
		{"SigPnd:\tx\n", ^uint64(0)},
		{"", ^uint64(0)},
	} {
		if got := pendingSignals(c.status); got != c.want {
			t.Errorf("%q: %#x, want %#x", c.status, got, c.want)
		}
	}
}
