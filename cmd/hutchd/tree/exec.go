package tree

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"hutch/aggd/trace"
	"hutch/cmd/hutchd/sandbox"
	"hutch/fs"
)

func execVerbs() []verb {
	pass := func(name, args string, min, max int, doc string) verb {
		return verb{Name: name, Args: args, Min: min, Max: max, Doc: doc, Do: func(c call, args []string) error {
			return c.At.exec.Ctl(c.Ctx, message(name, args))
		}}
	}
	return []verb{
		{Name: "exec", Args: "WORDS…", Min: 1, Max: -1, Lines: scripts, Do: execWords, Doc: "start a program; fails with the reason when it cannot"},
		{Name: "sh", Args: "LINE", Raw: true, Shell: true, Lines: scripts, Do: execLine, Doc: "start /bin/sh -c LINE, the rest of the line as it stands"},
		pass("dir", "PATH", 1, 1, "start it in PATH; /workspace if not said"),
		{Name: "env", Args: "K V", Min: 2, Max: 2, Do: execEnv, Doc: "with K=V in its environment"},
		{Name: "trace", Args: "ID", Min: 1, Max: 1, Do: execTrace, Doc: "as part of that trace, a W3C trace id or traceparent; it goes on as TRACEPARENT"},
		pass("user", "UID[:GID]", 1, 1, "as that user"),
		pass("tty", "ROWS COLS", 2, 2, "on a terminal of that size; later: its new size"),
		pass("timeout", "TIME", 1, 1, "end it after TIME, as 60s or 5m"),
		pass("limit", "SIZE", 1, 1, "keep at most SIZE of unread output, 16MiB if not said, then make it wait"),
		pass("signal", "NAME", 1, 1, "send a signal to its process group, as INT or SIGTERM"),
		pass("kill", "", 0, 0, "kill its process group"),
		{Name: "killonclose", Max: 0, Do: killOnClose, Doc: "kill it when the last of its open files is closed"},
		pass("hold", "", 0, 0, "end its standard input by eof alone, not when who writes it closes it"),
		pass("eof", "", 0, 0, "end its standard input"),
	}
}

const scripts = "a script of several lines is one word of exec sh -c, in quotes that the shell leaves: exec sh -c '…'"

// message puts a control message together again.
func message(name string, args []string) string {
	return fs.QuoteAll(append([]string{name}, args...))
}

func execWords(c call, args []string) error {
	m := message("exec", args)
	return c.At.exec.Start(c.Ctx, m, m)
}

// execLine has the guest told of words: its shell, not its ctl, reads LINE.
func execLine(c call, args []string) error {
	if strings.HasPrefix(args[0], "-c ") {
		return fmt.Errorf("%w: sh takes its line without -c; %s", fs.ErrInvalid, scripts)
	}
	return c.At.exec.Start(c.Ctx, "sh "+args[0], message("exec", []string{"/bin/sh", "-c", args[0]}))
}

func execTrace(c call, args []string) error { return c.At.exec.Trace(args[0]) }

// execEnv sets a variable. The one that names a trace says of which the command is
// part.
func execEnv(c call, args []string) error {
	if args[0] == trace.EnvParent {
		return execTrace(c, args[1:])
	}
	return c.At.exec.Ctl(c.Ctx, message("env", args))
}

func killOnClose(c call, _ []string) error {
	c.At.exec.KillOnClose()
	return nil
}

func execName(c call) (string, error) { return c.At.exec.Name + "\n", nil }

func execText(file string) func(call) (string, error) {
	return func(c call) (string, error) { return c.At.exec.Text(c.Ctx, file) }
}

func execStream(file string) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		h, err := c.At.exec.Open(c.Ctx, file, flags)
		if err != nil {
			return nil, c.At.vm.WhyGone(err)
		}
		return vmFile{h, c.At.vm}, nil
	}
}

// openStdin opens the input. To be read it is empty.
func openStdin(c call, flags int) (fs.Handle, error) {
	if flags&(os.O_WRONLY|os.O_RDWR) == 0 {
		return fs.OpenText(""), nil
	}
	return execStream("stdin")(c, flags&^os.O_RDWR|os.O_WRONLY)
}

func execNames(c call) ([]string, error) { return c.At.vm.Execs(c.Ctx) }

func enterExec(c call, name string) (at, error) {
	e, err := c.At.vm.Exec(c.Ctx, name)
	if err != nil {
		return at{}, err
	}
	return at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, exec: e}, nil
}

func makeExec(c call, name string) error {
	if err := fs.CheckWord("exec", name); err != nil {
		return err
	}
	_, err := c.At.vm.MakeExec(c.Ctx, name)
	return err
}

func dropExec(c call, name string) error {
	e, err := c.At.vm.Exec(c.Ctx, name)
	if err != nil {
		return err
	}
	return e.Drop(c.Ctx)
}

// cloneExec makes an anonymous exec: the open file is its ctl.
func cloneExec(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	e, err := c.At.vm.MakeAnonymousExec(c.Ctx)
	if err != nil {
		return nil, err
	}
	return openClone(at{s: c.At.s, vm: c.At.vm, gw: c.At.gw, exec: e}, func() string { return e.Name }, execVerbs()), nil
}

// openWait opens wait: at the host's own wait for the command, or at the
// guest's for one that an earlier service started.
func openWait(c call, flags int) (fs.Handle, error) {
	r := c.At.exec.Result()
	if r == nil {
		return c.At.exec.Open(c.Ctx, "wait", flags)
	}
	return &waitHandle{result: r, nonblock: flags&syscall.O_NONBLOCK != 0}, nil
}

// waitHandle is an open wait file.
type waitHandle struct {
	fs.MadeUp
	result   *sandbox.Result
	nonblock bool
}

func (h *waitHandle) Stream() bool { return true }

func (h *waitHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	line, err := h.result.Wait(ctx, h.nonblock)
	return fs.ReadText(line, p, off), err
}

// A vmFile is an open file of the guest. Its error tells why there is no
// guest any more.
type vmFile struct {
	fs.Handle
	vm *sandbox.Sandbox
}

func (f vmFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.ReadAt(ctx, p, off)
	return n, f.vm.WhyGone(err)
}

func (f vmFile) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := f.Handle.WriteAt(ctx, p, off)
	return n, f.vm.WhyGone(err)
}
