package sandbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hutch/aggd/trace"
	"hutch/cmd/hutchd/gateway"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/relay/guest"
	"hutch/vmm"
)

// An Exec is one command of a sandbox. The command and its output live in the
// guest's agent; this is the host's name for it.
type Exec struct {
	*guest.Exec
	ID   uint64 // no other object's
	Name string

	gateway.Held
	vm        *Sandbox
	guest     *guest.Guest
	anonymous bool // it goes with the last of its holders

	// guarded by vm.mu
	killOnClose bool              // the command is killed when the last of the holders lets go
	result      *Result           // nil until this service has started the command
	trace       trace.Context     // that the command is to be part of; none: its environment's, or a new one
	kept        map[string]string // its cmd and status, from when the VM was suspended
}

// A Result is how a command ended.
type Result struct {
	done chan struct{} // closed when it has; what follows is valid then
	line string        // exit status or signal, and times
	err  error         // why that is not known
}

// Wait returns the line that tells how the command ended, when it has.
func (r *Result) Wait(ctx context.Context, nonblock bool) (string, error) {
	if nonblock {
		select {
		case <-r.done:
		default:
			return "", fs.ErrAgain
		}
	}
	select {
	case <-r.done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Execs returns the names of the commands that the guest knows. Those of a
// suspended VM are the ones that this service has met.
func (v *Sandbox) Execs(ctx context.Context) ([]string, error) {
	g, err := v.Guest()
	if err != nil {
		return v.keptExecs(), nil
	}
	return g.Execs(ctx)
}

// Exec returns the exec called name, which the guest may know from before
// this hutchd was started.
func (v *Sandbox) Exec(ctx context.Context, name string) (*Exec, error) {
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
	return v.keepExec(x, g, name, false), nil
}

// MakeExec makes an exec called name, whose command is not started.
func (v *Sandbox) MakeExec(ctx context.Context, name string) (*Exec, error) {
	return v.makeExec(ctx, name, false)
}

func (v *Sandbox) makeExec(ctx context.Context, name string, anonymous bool) (*Exec, error) {
	g, err := v.Guest()
	if s := v.State(); err == nil && (s == vmm.Starting || s == vmm.Stopping) {
		err = fmt.Errorf("%w: vm %q is %s", fs.ErrBusy, v.Name(), s)
	}
	if err != nil {
		return nil, err
	}
	x, err := g.MakeExec(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.keepExec(x, g, name, anonymous), nil
}

// MakeAnonymousExec makes an exec with a number for a name, which goes when
// the last of its holders has let go of it.
func (v *Sandbox) MakeAnonymousExec(ctx context.Context) (*Exec, error) {
	for {
		e, err := v.makeExec(ctx, strconv.FormatUint(v.lastExec.Add(1), 10), true)
		if !fs.Is(err, fs.ErrExist) {
			return e, err
		}
	}
}

// keepExec enters x in the sandbox's table, unless its name is there already.
func (v *Sandbox) keepExec(x *guest.Exec, g *guest.Guest, name string, anonymous bool) *Exec {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.execs[name] == nil {
		e := &Exec{Exec: x, ID: v.service.NextID(), Name: name, vm: v, Held: gateway.Held{Keep: v.Hold}, guest: g, anonymous: anonymous}
		e.Unheld = e.letGo
		v.execs[name] = e
	}
	return v.execs[name]
}

// Trace has the command be part of a trace: that of a traceparent, or of a trace id.
func (e *Exec) Trace(text string) error {
	c, ok := trace.Parse(text)
	if id, isID := trace.ParseID(text); isID {
		c, ok = trace.New(), true
		c.Trace = id
	}
	if !ok {
		return fmt.Errorf("%w: trace %.80q: want a W3C trace id, 32 digits 0-9a-f that are not all 0, or a traceparent", fs.ErrInvalid, text)
	}
	e.vm.mu.Lock()
	defer e.vm.mu.Unlock()
	e.trace = c
	return nil
}

// traceOf returns the trace that the command is to be part of.
func (e *Exec) traceOf() trace.Context {
	e.vm.guestEnvMu.Lock()
	env := e.vm.guestEnv.env
	e.vm.guestEnvMu.Unlock()
	e.vm.mu.Lock()
	defer e.vm.mu.Unlock()
	if e.trace.IsZero() {
		return trace.From(env[trace.EnvParent], "")
	}
	return e.trace
}

// Start starts the command by telling the guest's ctl, with the variables of
// env/ as they are now and the trace that it is part of, and has its end, or why
// it could not start, written to the ledger. The ledger has message, which is how
// the command was asked for.
func (e *Exec) Start(ctx context.Context, message, tell string) error {
	if err := e.vm.tellEnv(ctx, e.guest); err != nil {
		return err
	}
	if err := e.vm.beforeExec(ctx, e.Name, message); err != nil {
		return err
	}
	own := e.traceOf().Child()
	began := time.Now()
	if err := e.Ctl(ctx, fs.QuoteAll([]string{"env", trace.EnvParent, own.String()}), tell); err != nil {
		if err = e.vm.WhyGone(err); !fs.Is(err, fs.ErrBusy) { // busy is an exec that has its command
			e.record(message, began, own, "", err)
		}
		return err
	}
	r := &Result{done: make(chan struct{})}
	e.vm.mu.Lock()
	e.result = r
	e.vm.mu.Unlock()
	e.vm.service.Count.Execs.Add(1)
	if e.vm.Do(func() { e.follow(r, message, began, own) }) {
		return nil
	}
	r.err = fmt.Errorf("%w: vm %s", fs.ErrNotExist, e.vm.Name())
	close(r.done)
	return r.err
}

// follow waits for the command's end, tells and records it.
func (e *Exec) follow(r *Result, message string, began time.Time, own trace.Context) {
	stop := e.vm.RowBegun(ledger.Execs, ledger.Row{"timestamp": began, "exec_id": e.Name, "command": message, "source": "tree", "trace_id": own})
	line, err := e.Wait(e.vm.Context())
	stop()
	if how := e.vm.Ending(); how.Why != "" {
		line, err = endedByVM(line, err, how, time.Since(began)), nil
	} else if why := e.vm.outOfMemory(line, began); why != "" {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), " oom") + " oom " + fs.QuoteLine(why) + "\n"
	}
	r.line, r.err = line, err
	e.record(message, began, own, line, err) // before anybody knows of it: who does looks for it there
	close(r.done)
}

// record has the ledger take a command that ended as line has it, or that could
// not start or be waited for because of err.
func (e *Exec) record(message string, began time.Time, own trace.Context, line string, err error) {
	row := ledger.Row{"timestamp": began, "exec_id": e.Name, "command": message, "duration_ms": time.Since(began), "source": "tree", "trace_id": own}
	how, _, _ := strings.Cut(line, " ")
	code, notCode := strconv.Atoi(how)
	for _, said := range []string{" vm ", " oom "} {
		if _, why, found := strings.Cut(strings.TrimSuffix(line, "\n"), said); found {
			words, _ := fs.LineWords(why, -1)
			row["error_message"] = strings.Join(words, " ")
		}
	}
	if f := strings.Fields(line); len(f) > 4 && f[4] == "timeout" {
		row["error_message"] = "timed out"
	}
	switch {
	case err != nil:
		row["error_message"] = fs.Text(err)
	case notCode != nil:
		row["signal"] = how
	default:
		row["exit_code"] = code
	}
	e.vm.Record(ledger.Execs, row)
}

// justKilled is how long before a command's end the host may have been seen to kill it.
const justKilled = 3 * time.Second

// outOfMemory says why a command that began at a time and ended with line was killed, "" if
// not for want of memory. A guest with a kernel of its own says so in line; else the host
// has just killed something. A shell ends with 137 if what it ran was killed.
func (v *Sandbox) outOfMemory(line string, began time.Time) string {
	f := strings.Fields(line)
	if len(f) == 0 || f[0] != "SIGKILL" && f[0] != "137" {
		return ""
	}
	if last := v.LastKilled(); f[len(f)-1] != "oom" && (last.Before(began) || time.Since(last) > justKilled) {
		return ""
	}
	return v.OutOfMemory().Error()
}

// endedByVM returns the line of a command whose machine ended, or is ending:
// how the command did, as far as that is known, and why the machine.
func endedByVM(line string, err error, how vmm.Ending, took time.Duration) string {
	if line = strings.TrimSuffix(line, "\n"); err != nil || line == "" {
		sig := "SIGKILL"
		if how.Orderly {
			sig = "SIGTERM"
		}
		line = fmt.Sprintf("%s - - %.3f", sig, took.Seconds())
	}
	return line + " vm " + fs.QuoteLine(how.Why) + "\n"
}

// Result tells how the command ended, nil if this service has not started it.
func (e *Exec) Result() *Result {
	e.vm.mu.Lock()
	defer e.vm.mu.Unlock()
	return e.result
}

// Text returns what a file of the guest's exec says, or said when its VM was
// suspended.
func (e *Exec) Text(ctx context.Context, file string) (string, error) {
	if text, ok := e.keptText(file); ok {
		return text, nil
	}
	text, err := e.Read(ctx, file)
	return text, e.vm.WhyGone(err)
}

// Drop removes the exec, and kills the command if it still runs.
func (e *Exec) Drop(ctx context.Context) error {
	e.vm.mu.Lock()
	if e.vm.execs[e.Name] == e {
		delete(e.vm.execs, e.Name)
	}
	e.vm.mu.Unlock()
	return e.Remove(ctx)
}

// KillOnClose has the command killed when the last holder lets go of it.
func (e *Exec) KillOnClose() {
	e.vm.mu.Lock()
	e.killOnClose = true
	e.vm.mu.Unlock()
}

// letGo is called when the last of the holders has let go.
func (e *Exec) letGo() {
	e.vm.mu.Lock()
	drop, kill := e.anonymous, e.killOnClose
	e.vm.mu.Unlock()
	if drop || kill {
		e.vm.Later(func(ctx context.Context) error {
			if drop {
				return e.Drop(ctx)
			}
			return e.Ctl(ctx, "kill")
		})
	}
}

// WhyGone gives the error of what needs a guest that is gone the reason.
func (v *Sandbox) WhyGone(err error) error {
	if how := v.Ending(); guest.IsGone(err) && how.Why != "" {
		return fmt.Errorf("%w: vm %q: %s", fs.ErrIO, v.Name(), how.Why)
	}
	return err
}

// Cons opens the console, a shell with the variables of env/ as they are now.
func (v *Sandbox) Cons(ctx context.Context, flags int) (fs.Handle, error) {
	g, err := v.Guest()
	if err != nil {
		return nil, err
	}
	if err := v.tellEnv(ctx, g); err != nil {
		return nil, err
	}
	return g.Cons(ctx, flags)
}
