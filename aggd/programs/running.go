package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"hutch/aggd/process"
	"hutch/aggd/wire"
)

// How long a program has to end after the end of its input, and then after SIGTERM
// where the Host does not say.
const (
	inputGrace = 500 * time.Millisecond
	termGrace  = 2 * time.Second
)

// A Task is a program that runs: a process of the host, or a command in a sandbox.
type Task interface {
	// Exited is closed when nothing of it is left and its Gone has returned.
	Exited() <-chan struct{}
	// Terminate asks it to end; Kill makes it, and waits for that.
	Terminate()
	Kill()
	// PID is the number of its process on the host; 0: it has ended, or has none.
	PID() int
}

// A Start is what a Starter is to start.
type Start struct {
	Server string // whose program it is
	wire.Program
	In, Out *os.File         // what it reads, and writes; a Starter closes them. Nil where it listens
	Log     io.Writer        // its standard error
	Gone    func(how string) // is called when it has ended, with how
}

// A Starter starts a program in the sandbox that its definition names, and waits for
// one that has a Port to listen there, which then is a Dialer. It gives up when ctx
// ends, which says nothing of a program that runs.
type Starter func(ctx context.Context, s Start) (Task, error)

// A running is a program that runs, or is about to.
type running struct {
	definition
	said   *Complaints
	ctx    context.Context    // of its start, and of connections to it
	give   context.CancelFunc // gives its start up, and ends the connections
	conns  atomic.Int32       // to it
	grace  time.Duration      // after SIGTERM
	how    string             // it ended, when it has
	ending sync.Once

	// guarded by the Host's mu
	task    Task // nil: it does not run yet
	stopped bool // it is to end
}

// begin starts the program, and returns the other ends of its pipes, if it has any:
// what it reads, and what it writes.
func (r *running) begin(elsewhere Starter) (Task, []*os.File, error) {
	s := Start{Server: r.Server, Program: r.Program, Log: r.said, Gone: func(how string) { r.how = how }}
	var ours []*os.File
	if r.Port == 0 {
		stdin, in, err1 := os.Pipe()
		out, stdout, err2 := os.Pipe()
		if err := errors.Join(err1, err2); err != nil {
			closeAll(stdin, in, out, stdout) // a nil file refuses
			return nil, nil, fmt.Errorf("start: %w", err)
		}
		s.In, s.Out, ours = stdin, stdout, []*os.File{in, out}
	}
	start := startProcess
	switch {
	case r.Sandbox != "" && elsewhere == nil:
		start = nowhere
	case r.Sandbox != "":
		start = elsewhere
	}
	task, err := start(r.ctx, s)
	if err != nil {
		closeAll(ours...)
		return nil, nil, fmt.Errorf("start: %w", err)
	}
	return task, ours, nil
}

// nowhere is the Starter of a Host that has none.
func nowhere(_ context.Context, s Start) (Task, error) {
	closeAll(s.In, s.Out)
	return nil, errors.New("there are no sandboxes here")
}

// startProcess is the Starter of what runs on the host.
func startProcess(_ context.Context, s Start) (Task, error) {
	cfg := process.Config{
		Name: s.Command, Args: s.Args, Dir: s.Dir, Confined: s.Confined, In: s.In, Out: s.Out, Log: s.Log, Gone: s.Gone,
	}
	home, err := homeDir(), error(nil)
	if s.RunAs != "" {
		cfg.User, home, err = runAs(s.RunAs)
	}
	if err == nil {
		cfg.Env = environment(s.Program, home)
		cfg.Path, err = lookPath(s.Command, cfg.Env)
	}
	if err != nil {
		closeAll(s.In, s.Out)
		return nil, err
	}
	return process.Start(cfg)
}

// stop ends a program that runs, whose input has ended, if it has one, by SIGTERM, and
// then by force; and waits.
func (r *running) stop() {
	r.ending.Do(func() {
		if r.Port == 0 && Await(r.task, inputGrace) {
			return
		}
		r.task.Terminate()
		if !Await(r.task, r.grace) {
			r.task.Kill()
		}
	})
}

// Await waits a while until nothing of a task is left, and reports whether that came.
func Await(t Task, d time.Duration) bool {
	select {
	case <-t.Exited():
		return true
	case <-time.After(d):
		return false
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}
