package tree

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/vmm"
	"hutch/vmm/guest"
)

// An ending is how a command ended, once done is closed.
type ending struct {
	done chan struct{}
	line string
	err  error
}

// openWait opens wait: at the host's own wait for the command, or at the
// guest's for one that an earlier service started.
func openWait(c call, flags int) (fs.Handle, error) {
	c.At.vm.mu.Lock()
	end := c.At.exec.end
	c.At.vm.mu.Unlock()
	if end == nil {
		return c.At.exec.Open(c.Ctx, "wait", flags)
	}
	return &waitHandle{end: end, nonblock: flags&syscall.O_NONBLOCK != 0}, nil
}

// waitHandle is an open wait file.
type waitHandle struct {
	end      *ending
	nonblock bool
}

func (h *waitHandle) Stream() bool { return true }

func (h *waitHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	select {
	case <-h.end.done:
	default:
		if h.nonblock {
			return 0, fs.ErrAgain
		}
		select {
		case <-h.end.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return fs.ReadText(h.end.line, p, off), h.end.err
}

func (h *waitHandle) WriteAt(context.Context, []byte, int64) (int, error) {
	return 0, fs.ErrPermission
}

func (h *waitHandle) Close() error { return nil }

// withMachine returns the line of a command whose machine ended, or is ending:
// how the command did, as far as that is known, and why the machine.
func withMachine(line string, err error, how vmm.Ending, took time.Duration) string {
	if line = strings.TrimSuffix(line, "\n"); err != nil || line == "" {
		sig := "SIGKILL"
		if how.Orderly {
			sig = "SIGTERM"
		}
		line = fmt.Sprintf("%s - - %.3f", sig, took.Seconds())
	}
	return line + " vm " + fs.QuoteLine(how.Why) + "\n"
}

// A vmFile is an open file of the guest. Its error tells why there is no
// guest any more.
type vmFile struct {
	fs.Handle
	vm *vm
}

func (f vmFile) Stream() bool {
	s, ok := f.Handle.(fs.Streamer)
	return ok && s.Stream()
}

func (f vmFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.ReadAt(ctx, p, off)
	return n, f.vm.ended(err)
}

func (f vmFile) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.WriteAt(ctx, p, off)
	return n, f.vm.ended(err)
}

// ended gives the error of what needs a guest that is gone the reason.
func (v *vm) ended(err error) error {
	if how := v.Ending(); guest.IsGone(err) && how.Why != "" {
		return fmt.Errorf("%w: vm %q: %s", fs.ErrIO, v.Name(), how.Why)
	}
	return err
}

// follow waits for the command's end, tells and records it.
func (e *exec) follow(end *ending, message string, began time.Time) {
	line, err := e.Wait(e.vm.ctx)
	if how := e.vm.Ending(); how.Why != "" {
		line, err = withMachine(line, err, how, time.Since(began)), nil
	}
	end.line, end.err = line, err
	close(end.done)
	r := ledger.Row{"timestamp": began, "exec_id": e.name, "command": message, "duration_ms": time.Since(began), "source": "tree"}
	how, _, _ := strings.Cut(line, " ")
	code, notCode := strconv.Atoi(how)
	switch {
	case err != nil:
		r["error_message"] = fs.Text(err)
	case notCode != nil:
		r["signal"] = how
	default:
		r["exit_code"] = code
	}
	e.vm.record(ledger.Execs, r)
}
