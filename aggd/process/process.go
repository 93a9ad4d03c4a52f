// Package process runs a program that holds what its parent may not, the
// network: as a child with an empty environment, no descriptors but its
// standard ones and a session of its own, which ends with its parent.
package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Config says what to run and who reads what it says.
type Config struct {
	Path string
	Args []string
	In   *os.File  // its standard input, which Start closes; nil: a pipe, the Process's In
	Log  io.Writer // its standard error
	// Read reads all that the process writes, on a goroutine of its own. The
	// process is not gone before Read has returned.
	Read func(out io.Reader)
	// Gone is called when nothing of the process is left, with how it ended.
	Gone func(how string)
}

// A Process is one that was started.
type Process struct {
	In io.WriteCloser // nil if the Config has an In

	cfg    Config
	cmd    *exec.Cmd
	read   chan struct{} // closed when all it wrote has been read
	exited chan struct{}
}

// Grace is how long a process has to end by itself when it is asked to.
const Grace = 5 * time.Second

// Start starts a process.
func Start(cfg Config) (*Process, error) {
	cmd := exec.Command(cfg.Path, cfg.Args...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stderr = cfg.Log
	cmd.WaitDelay = time.Second
	isolate(cmd)
	p := &Process{cfg: cfg, cmd: cmd, read: make(chan struct{}), exited: make(chan struct{})}
	out, err := p.connect()
	if err == nil {
		if err = p.spawn(); err != nil && p.In != nil {
			p.In.Close()
		}
	}
	if cfg.In != nil {
		cfg.In.Close()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.read)
		cfg.Read(out)
	}()
	return p, nil
}

// connect makes the pipes.
func (p *Process) connect() (out io.Reader, err error) {
	if p.cfg.In != nil {
		p.cmd.Stdin = p.cfg.In
	} else if p.In, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err = p.cmd.StdoutPipe()
	if err != nil && p.In != nil {
		p.In.Close()
	}
	return out, err
}

// spawn starts the process and waits for it on one thread: the signal that a
// child gets at its parent's death comes at the death of that thread.
func (p *Process) spawn() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		awaitExit(p.cmd.Process.Pid)
		sweep(p.cmd.Process.Pid)
		<-p.read
		p.cfg.Gone(how(p.cmd.Wait()))
		close(p.exited)
	}()
	return <-started
}

func how(err error) string {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.Error()
	case err != nil:
		return err.Error()
	}
	return "exit status 0"
}

// Exited is closed when the process is gone and Gone has returned.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// PID returns the id of the process, 0 when it is gone.
func (p *Process) PID() int {
	select {
	case <-p.exited:
		return 0
	default:
		return p.cmd.Process.Pid
	}
}

// End waits for the end of a process whose input was ended, and after the grace
// kills it with all it started.
func (p *Process) End() {
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		kill(p.cmd.Process.Pid)
		<-p.exited
	}
}
