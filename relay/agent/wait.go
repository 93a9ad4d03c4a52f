package agent

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
)

// result returns how the command ended: exit status or signal, user, system
// and real time in seconds, "timeout" if its time was up, "oom" if it, or what a shell
// ran, was killed for want of memory, and what it was told to say by dispatch.
func (c *command) result() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateExited {
		return ""
	}
	line := fmt.Sprintf("%s %.3f %.3f %.3f", ending(c.how), c.how.user.Seconds(), c.how.sys.Seconds(),
		max(c.how.at.Sub(c.begun), 0).Seconds())
	if c.timedOut {
		line += " timeout"
	}
	if c.oom {
		line += " oom"
	}
	if c.conf.dispatch != "" {
		line += " dispatch " + c.conf.dispatch
	}
	return line
}

// kills returns how many processes the guest's kernel has killed for want of memory.
// That of gVisor kills none; its host does.
func kills() int64 {
	text, _ := os.ReadFile("/proc/vmstat")
	_, after, _ := strings.Cut(string(text), "\noom_kill ")
	word, _, _ := strings.Cut(after, "\n")
	n, _ := strconv.ParseInt(word, 10, 64)
	return n
}

func ending(e exit) string {
	if e.status.Signaled() {
		if name := unix.SignalName(e.status.Signal()); name != "" {
			return name
		}
		return fmt.Sprintf("signal%d", int(e.status.Signal()))
	}
	return strconv.Itoa(e.status.ExitStatus())
}

// status returns the state, then key value lines.
func (c *command) status() string {
	var b strings.Builder
	c.mu.Lock()
	fmt.Fprintf(&b, "%s\n", c.state)
	if c.pid != 0 {
		fmt.Fprintf(&b, "pid %d\nbegun %s\n", c.pid, c.begun.UTC().Format(time.RFC3339Nano))
	}
	fmt.Fprintf(&b, "opens %d\n", c.opens.count())
	if c.conf.killOnClose {
		b.WriteString("killonclose 1\n")
	}
	c.mu.Unlock()
	if r := c.result(); r != "" {
		fmt.Fprintf(&b, "result %s\n", r)
	}
	fmt.Fprintf(&b, "stdout %s\nstderr %s\n", c.stdout.Extent(), c.stderr.Extent())
	return b.String()
}

// parseSignal reads a signal's name, with or without SIG, or number.
func parseSignal(s string) (unix.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 65 {
		return unix.Signal(n), nil
	}
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%w: signal %q", fs.ErrInvalid, s)
}

// A waitHandle is an open wait.
type waitHandle struct {
	fs.MadeUp
	c        *command
	nonblock bool
}

func (h *waitHandle) Stream() bool { return true }

func (h *waitHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	for dropped := h.c.dropped; ; {
		select {
		case <-h.c.ended:
			return fs.ReadText(h.c.result()+"\n", p, off), nil
		default:
		}
		if h.nonblock {
			return 0, fs.ErrAgain
		}
		select {
		case <-h.c.ended:
		case <-dropped:
			if !h.c.ran() {
				return 0, fmt.Errorf("%w: exec %s is gone and never ran", fs.ErrNotExist, h.c.name)
			}
			dropped = nil // it was killed, and ends
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (c *command) ran() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid != 0
}
