package agent

import (
	"context"
	"os"
	"sync"
	"syscall"

	"hutch/fs"
)

const (
	consKept   = 256 << 10
	consRecent = 4 << 10 // what a new reader sees of the past
)

// A console is a login shell on a terminal. It begins with the first open,
// goes on when nobody looks, and begins anew with the next open after it
// ended. Offsets count from the first byte of the first shell, so that a
// reader that lost its connection can go on where it was.
type console struct {
	a *Agent

	mu    sync.Mutex // held while a shell starts; guards shell
	shell *command
}

func (c *console) open(flags int, from *session) (fs.Handle, error) {
	sh, err := c.running()
	if err != nil {
		return nil, err
	}
	sh.stdin.open(from)
	r := sh.stdout.open(flags&syscall.O_NONBLOCK != 0)
	return &consHandle{spoolReader: r, in: sh.stdin, from: from}, nil
}

// running returns the shell that runs, a new one if need be.
func (c *console) running() (*command, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := int64(0)
	if c.shell != nil {
		select {
		case <-c.shell.ended:
			c.shell.drop(false)
			at = c.shell.stdout.Size()
		default:
			return c.shell, nil
		}
	}
	sh := newCommand(c.a, "cons", c.a.number())
	sh.stdout = newRing(consKept, at)
	if err := sh.resize(&size{rows: 24, cols: 80}); err != nil {
		return nil, err
	}
	if err := sh.run(loginShell()); err != nil {
		return nil, err
	}
	c.shell = sh
	return sh, nil
}

func loginShell() []string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return []string{"/bin/bash", "-l"}
	}
	return []string{"/bin/sh", "-l"}
}

// size returns how much the console ever said.
func (c *console) size() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shell == nil {
		return 0
	}
	return uint64(c.shell.stdout.Size())
}

func (c *console) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shell != nil {
		c.shell.drop(true)
	}
}

// A consHandle is an open console. A read at offset 0 begins with what was
// said last; one at an offset that is gone goes on with the oldest kept.
type consHandle struct {
	*spoolReader
	in   *input
	from *session

	skipMu sync.Mutex // guards what follows
	begun  bool
	skip   int64 // what lies between the reader's offsets and the console's
}

func (h *consHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	return h.spoolReader.ReadAt(ctx, p, h.place(off))
}

// place turns a reader's offset into the console's.
func (h *consHandle) place(off int64) int64 {
	h.skipMu.Lock()
	defer h.skipMu.Unlock()
	h.s.mu.Lock()
	oldest := h.s.base
	if !h.begun && off == 0 {
		oldest = max(oldest, h.s.end-consRecent)
	}
	h.s.mu.Unlock()
	h.begun = true
	h.skip = max(h.skip, oldest-off)
	return off + h.skip
}

func (h *consHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	return h.in.write(ctx, p)
}

func (h *consHandle) Close() error {
	h.in.leave(h.from)
	return h.spoolReader.Close()
}
