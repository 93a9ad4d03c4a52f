// Package process runs a program that holds what its parent may not, the
// network: as a child with no descriptors but those it is given and a session of
// its own, which ends with its parent.
package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Config says what to run and who reads what it says.
type Config struct {
	Path  string
	Name  string // what the program is told it is called; Path where empty
	Args  []string
	Env   []string // none where nil
	Dir   string   // / where empty
	In    *os.File // its standard input; nil: a pipe, the Process's In
	Out   *os.File // its standard output; nil: a pipe, which Read reads
	Extra []*os.File
	// User is who the process is; nil: who starts it. It goes with no Confined.
	User *syscall.Credential
	// Confined has the process begin with what package confine takes from it; the
	// rest it gives up itself.
	Confined bool
	Log      io.Writer // its standard error
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

// Start starts a process, and closes the files of its Config.
func Start(cfg Config) (*Process, error) {
	cmd := exec.Command(cfg.Path, cfg.Args...)
	if cfg.Name != "" {
		cmd.Args[0] = cfg.Name
	}
	cmd.Env = append([]string{}, cfg.Env...)
	cmd.Dir = cfg.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stderr = cfg.Log
	cmd.ExtraFiles = cfg.Extra
	cmd.WaitDelay = time.Second
	isolate(cmd)
	cmd.SysProcAttr.Credential = cfg.User
	if cfg.Confined {
		if err := confined(cmd); err != nil {
			cfg.close()
			return nil, err
		}
	}
	p := &Process{cfg: cfg, cmd: cmd, read: make(chan struct{}), exited: make(chan struct{})}
	if cfg.Confined {
		defer cmd.ExtraFiles[len(cfg.Extra)].Close()
	}
	out, err := p.connect()
	if err == nil {
		if err = p.spawn(); err != nil && p.In != nil {
			p.In.Close()
		}
	}
	cfg.close()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.read)
		if out != nil {
			cfg.Read(out)
		}
	}()
	return p, nil
}

// close closes the files that are the process's.
func (cfg Config) close() {
	for _, f := range append([]*os.File{cfg.In, cfg.Out}, cfg.Extra...) {
		f.Close() // which a nil file refuses
	}
}

// connect makes the pipes that the Config has no files for.
func (p *Process) connect() (out io.Reader, err error) {
	if p.cfg.In != nil {
		p.cmd.Stdin = p.cfg.In
	} else if p.In, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.cfg.Out != nil {
		p.cmd.Stdout = p.cfg.Out
		return nil, nil
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
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // somebody else holds its standard error
		return err.Error()
	}
	return "exit status 0"
}

// Exited is closed when the process is gone and Gone has returned.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits a while for the end of the process, and reports whether it came.
func (p *Process) Wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Terminate asks the process to end, by SIGTERM to all of its group.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// Kill kills the process with all it started, and waits for its end.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// signal sends a signal to the process and its group.
func (p *Process) signal(sig syscall.Signal) {
	if pid := p.PID(); pid != 0 {
		syscall.Kill(-pid, sig)
		syscall.Kill(pid, sig)
	}
}

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
	if !p.Wait(Grace) {
		p.Kill()
	}
}
