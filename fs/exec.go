package fs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hutch/fs/node"
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
	end         *ending // nil until this service has started the command
}

func execVerbs() []verb {
	pass := func(name, args string, min, max int, doc string) verb {
		return verb{Name: name, Args: args, Min: min, Max: max, Doc: doc, Do: func(c call, args []string) error {
			return c.At.exec.Ctl(c.Ctx, message(name, args))
		}}
	}
	return []verb{
		{Name: "exec", Args: "WORDS…", Min: 1, Max: -1, Do: execWords, Doc: "start a program; fails with the reason when it cannot"},
		{Name: "sh", Args: "LINE", Raw: true, Do: execLine, Doc: "start /bin/sh -c LINE, the rest of the line as it stands"},
		pass("dir", "PATH", 1, 1, "start it in PATH; /workspace if not said"),
		pass("env", "K V", 2, 2, "with K=V in its environment"),
		pass("user", "UID[:GID]", 1, 1, "as that user"),
		pass("tty", "ROWS COLS", 2, 2, "on a terminal of that size; later: its new size"),
		pass("timeout", "TIME", 1, 1, "end it after TIME, as 60s or 5m"),
		pass("limit", "SIZE", 1, 1, "keep at most SIZE of unread output, 16MiB if not said, then make it wait"),
		pass("signal", "NAME", 1, 1, "send a signal to its process group, as INT or SIGTERM"),
		pass("kill", "", 0, 0, "kill its process group"),
		{Name: "killonclose", Max: 0, Do: killOnClose, Doc: "kill it when the last of its open files is closed"},
		pass("eof", "", 0, 0, "end its standard input"),
	}
}

// message puts a control message together again.
func message(name string, args []string) string {
	words := []string{name}
	for _, a := range args {
		words = append(words, node.Quote(a))
	}
	return strings.Join(words, " ")
}

func execWords(c call, args []string) error { return c.At.exec.start(c.Ctx, message("exec", args)) }
func execLine(c call, args []string) error  { return c.At.exec.start(c.Ctx, "sh "+args[0]) }

func killOnClose(c call, _ []string) error {
	c.At.vm.mu.Lock()
	c.At.exec.killOnClose = true
	c.At.vm.mu.Unlock()
	return nil
}

// start starts the command, with the variables of env/ as they are now, and
// has its end written to the ledger.
func (e *exec) start(ctx context.Context, message string) error {
	if err := e.vm.tellEnv(ctx, e.guest); err != nil {
		return err
	}
	began := time.Now()
	if err := e.Ctl(ctx, message); err != nil {
		return err
	}
	end := &ending{done: make(chan struct{})}
	e.vm.mu.Lock()
	e.end = end
	e.vm.mu.Unlock()
	e.vm.s.count.execs.Add(1)
	if e.vm.work.begin(func() { e.follow(end, message, began) }) {
		return nil
	}
	end.err = fmt.Errorf("%w: vm %s", node.ErrNotExist, e.vm.Name())
	close(end.done)
	return end.err
}

func execName(c call) (string, error) { return c.At.exec.name + "\n", nil }

func execText(file string) func(call) (string, error) {
	return func(c call) (string, error) { return c.At.exec.Read(c.Ctx, file) }
}

func execStream(file string) func(call, int) (node.Handle, error) {
	return func(c call, flags int) (node.Handle, error) { return c.At.exec.Open(c.Ctx, file, flags) }
}

func execNames(c call) ([]string, error) {
	v := c.At.vm
	g, err := v.Guest()
	if err != nil {
		return v.asleep(), nil
	}
	return g.Execs(c.Ctx)
}

// asleep returns the names of the commands that wait in a suspended VM, as
// far as this hutchd has met them; without a guest there are no others.
func (v *vm) asleep() []string {
	if v.State() != vmm.Suspended {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.execs))
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
		return nil, fmt.Errorf("%w: exec %s: vm %s is not running", node.ErrNotExist, name, v.Name())
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
func cloneExec(c call, flags int) (node.Handle, error) {
	if err := wantBoth(flags); err != nil {
		return nil, err
	}
	v := c.At.vm
	for {
		name := strconv.FormatUint(v.number.Add(1), 10)
		e, err := v.makeExec(c.Ctx, name)
		if node.Errno(err) == node.Errno(node.ErrExist) {
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
