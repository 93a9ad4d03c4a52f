package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"hutch/fs"
)

const endOfTransmission = "\x04" // what ends the input of a terminal

// An input is what a command reads. Until the command starts it is a pipe
// that takes what fits. One writer writes at a time, the others wait.
type input struct {
	turn chan struct{} // holds a token: whoever has it writes

	mu      sync.Mutex // guards what follows
	w       *os.File   // the pipe's end that is written, or the terminal
	child   *os.File   // the pipe's other end, until the command has it
	tty     bool
	writers holders
	held    bool // it ends by eof alone
	ended   bool
}

func newInput() *input {
	in := &input{turn: make(chan struct{}, 1), writers: make(holders)}
	in.turn <- struct{}{}
	return in
}

// pipe makes the pipe unless it is there. It is called with mu held.
func (in *input) pipe() (err error) {
	if in.w == nil && in.child == nil {
		in.child, in.w, err = os.Pipe()
	}
	return err
}

// forChild gives the pipe's end away that the command is to read. The caller
// closes it.
func (in *input) forChild() (*os.File, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.pipe(); err != nil {
		return nil, err
	}
	if in.ended {
		in.w.Close()
	}
	child := in.child
	in.child = nil
	return child, nil
}

// takeBack undoes forChild after a command that could not start.
func (in *input) takeBack(child *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.child = child
}

// terminal makes the input that of a terminal, whose other side comes with
// the command.
func (in *input) terminal() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.tty && (in.w != nil || in.ended) {
		return fmt.Errorf("%w: stdin was written to before tty", fs.ErrBusy)
	}
	in.tty = true
	return nil
}

func (in *input) attach(master *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.w = master
}

// open counts a writer in.
func (in *input) open(from *session) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.writers[from]++
}

// leave counts a writer out. The last one that closes ends the input of a
// pipe. One whose connection was lost may come back, and the input of a
// terminal ends when its user says so.
func (in *input) leave(from *session) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.writers.leave(from) && !in.tty && !in.held {
		in.end()
	}
}

// hold has the input outlast its writers.
func (in *input) hold() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		return fmt.Errorf("%w: stdin has ended", fs.ErrPipe)
	}
	in.held = true
	return nil
}

// eof ends the input: what was written is read, then nothing.
func (in *input) eof(ctx context.Context) error {
	in.mu.Lock()
	if !in.tty {
		defer in.mu.Unlock()
		in.end()
		return nil
	}
	in.mu.Unlock()
	_, err := in.write(ctx, []byte(endOfTransmission))
	return err
}

func (in *input) end() {
	if !in.ended && in.w != nil {
		in.w.Close()
	}
	in.ended = true
}

// drop closes what is open.
func (in *input) drop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.end()
	if in.child != nil {
		in.child.Close()
		in.child = nil
	}
}

// ready returns where to write.
func (in *input) ready() (*os.File, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.ended:
		return nil, fmt.Errorf("%w: stdin has ended", fs.ErrPipe)
	case in.tty && in.w == nil:
		return nil, fmt.Errorf("%w: the terminal comes with exec", fs.ErrBusy)
	}
	err := in.pipe()
	return in.w, err
}

// write blocks until all of p is taken, or ctx is done; then it returns how
// much was, if any.
func (in *input) write(ctx context.Context, p []byte) (int, error) {
	select {
	case <-in.turn:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { in.turn <- struct{}{} }()
	w, err := in.ready()
	if err != nil {
		return 0, err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		w.SetWriteDeadline(time.Unix(1, 0))
		close(late)
	})
	n, err := w.Write(p)
	if !stop() {
		<-late
		w.SetWriteDeadline(time.Time{})
	}
	switch {
	case err == nil || n > 0:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, ctx.Err()
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EIO), errors.Is(err, os.ErrClosed):
		return 0, fmt.Errorf("%w: nobody reads stdin", fs.ErrPipe)
	}
	return 0, err
}

// A stdinHandle is an open stdin.
type stdinHandle struct {
	fs.MadeUp
	in   *input
	from *session
}

func (h *stdinHandle) Stream() bool { return true }

func (h *stdinHandle) ReadAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (h *stdinHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return h.in.write(ctx, p)
}

func (h *stdinHandle) Close() error {
	h.in.leave(h.from)
	return nil
}
