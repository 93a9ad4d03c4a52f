package tree

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/guest"
)

// An exec is one command of a VM. The command and its output live in the
// guest's agent; this is the host's name for it.
type exec struct {
	*guest.Exec
	guest *guest.Guest
	id    uint64
	name  string
	vm    *vm

	// guarded by vm.mu
	refs        int
	anonymous   bool
	killOnClose bool
	end         *ending           // nil until this service has started the command
	kept        map[string]string // its cmd and status, from when the VM was suspended
}

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
		pass("env", "K V", 2, 2, "with K=V in its environment"),
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
	return c.At.exec.start(c.Ctx, m, m)
}

// execLine has the guest told of words: its shell, not its ctl, reads LINE.
func execLine(c call, args []string) error {
	if strings.HasPrefix(args[0], "-c ") {
		return fmt.Errorf("%w: sh takes its line without -c; %s", fs.ErrInvalid, scripts)
	}
	return c.At.exec.start(c.Ctx, "sh "+args[0], message("exec", []string{"/bin/sh", "-c", args[0]}))
}

func killOnClose(c call, _ []string) error {
	c.At.vm.mu.Lock()
	c.At.exec.killOnClose = true
	c.At.vm.mu.Unlock()
	return nil
}

// start starts the command by telling the guest's ctl, with the variables of
// env/ as they are now, and has its end written to the ledger.
func (e *exec) start(ctx context.Context, message, tell string) error {
	if err := e.vm.tellEnv(ctx, e.guest); err != nil {
		return err
	}
	began := time.Now()
	if err := e.Ctl(ctx, tell); err != nil {
		return e.vm.ended(err)
	}
	end := &ending{done: make(chan struct{})}
	e.vm.mu.Lock()
	e.end = end
	e.vm.mu.Unlock()
	e.vm.s.count.execs.Add(1)
	if e.vm.work.begin(func() { e.follow(end, message, began) }) {
		return nil
	}
	end.err = fmt.Errorf("%w: vm %s", fs.ErrNotExist, e.vm.Name())
	close(end.done)
	return end.err
}

func execName(c call) (string, error) { return c.At.exec.name + "\n", nil }

func execText(file string) func(call) (string, error) {
	return func(c call) (string, error) {
		if text, ok := c.At.exec.asleep(file); ok {
			return text, nil
		}
		text, err := c.At.exec.Read(c.Ctx, file)
		return text, c.At.vm.ended(err)
	}
}

func execStream(file string) func(call, int) (fs.Handle, error) {
	return func(c call, flags int) (fs.Handle, error) {
		h, err := c.At.exec.Open(c.Ctx, file, flags)
		if err != nil {
			return nil, c.At.vm.ended(err)
		}
		return vmFile{h, c.At.vm}, nil
	}
}

func execNames(c call) ([]string, error) {
	v := c.At.vm
	g, err := v.Guest()
	if err != nil {
		return v.asleep(), nil
	}
	return g.Execs(c.Ctx)
}

func enterExec(c call, name string) (at, error) {
	e, err := c.At.vm.exec(c.Ctx, name)
	if err != nil {
		return at{}, err
	}
	return at{s: c.At.s, vm: c.At.vm, exec: e}, nil
}

// exec returns the exec called name, which the guest may know from before
// this hutchd was started.
func (v *vm) exec(ctx context.Context, name string) (*exec, error) {
	g, err := v.Guest()
	if err != nil && v.State() != vmm.Suspended {
		return nil, fmt.Errorf("%w: exec %s: vm %s is not running: start it first", fs.ErrNotExist, name, v.Name())
	}
	v.mu.Lock()
	e := v.execs[name]
	v.mu.Unlock()
	switch {
	case e != nil:
		return e, nil
	case err != nil:
		return nil, err
	}
	x, err := g.Exec(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.keep(&exec{Exec: x, guest: g, name: name, vm: v}), nil
}

// keep enters e in the VM's table, unless its name is there already.
func (v *vm) keep(e *exec) *exec {
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.execs[e.name]; old != nil {
		return old
	}
	e.id = v.s.next()
	v.execs[e.name] = e
	return e
}

func makeExec(c call, name string) error {
	_, err := c.At.vm.makeExec(c.Ctx, name)
	return err
}

func (v *vm) makeExec(ctx context.Context, name string) (*exec, error) {
	g, err := v.Guest()
	if s := v.State(); err == nil && (s == vmm.Starting || s == vmm.Stopping) {
		err = fmt.Errorf("%w: vm %q is %s", fs.ErrBusy, v.Name(), s)
	}
	if err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	x, err := g.MakeExec(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.keep(&exec{Exec: x, guest: g, name: name, vm: v}), nil
}

func dropExec(c call, name string) error {
	e, err := c.At.vm.exec(c.Ctx, name)
	if err != nil {
		return err
	}
	return e.drop(c.Ctx)
}

// drop removes the exec, and kills the command if it still runs.
func (e *exec) drop(ctx context.Context) error {
	e.vm.mu.Lock()
	if e.vm.execs[e.name] == e {
		delete(e.vm.execs, e.name)
	}
	e.vm.mu.Unlock()
	return e.Remove(ctx)
}

// cloneExec makes an anonymous exec: the open file is its ctl.
func cloneExec(c call, flags int) (fs.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	v := c.At.vm
	for {
		name := strconv.FormatUint(v.number.Add(1), 10)
		e, err := v.makeExec(c.Ctx, name)
		if fs.Errno(err) == fs.Errno(fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v.mu.Lock()
		e.anonymous = true
		v.mu.Unlock()
		return openClone(c, at{s: c.At.s, vm: v, exec: e}, func() string { return name }, execVerbs()), nil
	}
}
