package aggd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"hutch/aggd/wire"
)

// How long a program has to end after the end of its input, and then after SIGTERM.
const (
	inputGrace = 500 * time.Millisecond
	termGrace  = 2 * time.Second
)

// A stdio carries messages to a program of ours, a line each.
type stdio struct {
	c      *conn
	cmd    *exec.Cmd
	in     *wire.Queue
	stderr *complaints
	exited chan struct{} // closed when the program is gone
	once   sync.Once
	tasks  sync.WaitGroup
}

// openStdio starts the program.
func openStdio(c *conn, def definition, environ []string) error {
	env := environment(environ, def.Env)
	path, err := lookPath(def.Command, env)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, def.Args...)
	cmd.Args[0] = def.Command
	cmd.Env = env
	cmd.Dir = def.Dir
	cmd.WaitDelay = time.Second
	isolate(cmd)
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	t := &stdio{
		c:      c,
		cmd:    cmd,
		in:     wire.NewQueue(stdin),
		stderr: &complaints{log: c.up.logf, brake: newBrake(100, 20)},
		exited: make(chan struct{}),
	}
	c.transport = t
	read := make(chan struct{})
	if err := t.spawn(read, stdout, stderr); err != nil {
		t.in.Close()
		close(t.exited)
		close(read)
		return fmt.Errorf("start: %w", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { t.read(stdout) })
	reading.Go(func() { t.stderr.read(stderr) })
	t.tasks.Go(func() {
		reading.Wait()
		close(read)
	})
	return nil
}

// spawn starts the program and waits for it on one thread: the signal that a
// program gets at its parent's death comes at the death of that thread.
func (t *stdio) spawn(read <-chan struct{}, pipes ...io.Reader) error {
	started := make(chan error)
	t.tasks.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := t.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		awaitExit(t.cmd.Process.Pid, read, pipes)
		err = t.cmd.Wait()
		close(t.exited)
		t.in.Close()
		<-read // the pipes are closed by now, and what came by them counts
		t.c.fail(t.reason(err))
	})
	return <-started
}

// reason says how the program ended, in its own last words where it had any.
func (t *stdio) reason(err error) error {
	how := "exit status 0"
	if err != nil {
		how = err.Error()
	}
	if words := t.stderr.last(); words != "" {
		return fmt.Errorf("the server died (%s): %s", how, words)
	}
	return fmt.Errorf("the server died (%s)", how)
}

// read hands on what the program says until it says no more. A program that has
// closed its output is of no use and is ended.
func (t *stdio) read(stdout io.Reader) {
	r := wire.NewReader(stdout, t.c.up.agg.cfg.MaxResult)
	for {
		line, err := r.Read()
		var long *wire.TooLong
		switch {
		case errors.As(err, &long):
			t.c.tooLong(long, nil)
		case err != nil:
			t.tasks.Go(t.stop)
			return
		default:
			t.c.receive(line, nil)
		}
	}
}

func (t *stdio) send(ctx context.Context, msg []byte, _ *call) error {
	err := t.in.Put(msg)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrStuck):
		return fmt.Errorf("the server %w", err)
	}
	t.c.up.agg.tasks.Go(t.stop) // without input it is of no use
	select {
	case <-t.c.over: // which tells the calls why
	case <-ctx.Done():
	}
	return nil
}

func (t *stdio) begin(string) {}

// close ends the program with all it started.
func (t *stdio) close() {
	t.stop()
	t.tasks.Wait()
}

// stop ends the program: by the end of its input, then by SIGTERM, then by force.
func (t *stdio) stop() {
	t.once.Do(func() {
		t.in.Close()
		if t.wait(inputGrace) {
			return
		}
		signalGroup(t.cmd.Process.Pid, termSignal)
		if t.wait(termGrace) {
			return
		}
		signalGroup(t.cmd.Process.Pid, killSignal)
	})
}

// wait waits a while for the program's end.
func (t *stdio) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.exited:
		return true
	case <-timer.C:
		return false
	}
}

// defaultPath is where programs are looked for when nobody says.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// passed are the variables that programs get from our environment.
var passed = []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR", "TRACEPARENT", "TRACESTATE"}

// environment returns the environment of a program.
func environment(environ []string, own map[string]string) []string {
	all := map[string]string{"PATH": defaultPath, "HOME": "/"}
	if u, err := user.Current(); err == nil {
		all["HOME"] = u.HomeDir
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(passed, name) {
			all[name] = value
		}
	}
	for name, value := range own {
		all[name] = value
	}
	env := []string{}
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// lookPath finds a command by the PATH of env.
func lookPath(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	for _, kv := range env {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, command)
			if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 && filepath.IsAbs(file) {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("start: no program %q in the PATH", command)
}

// complaints keeps what a program writes to its stderr.
type complaints struct {
	log   func(format string, args ...any)
	brake *brake

	mu   sync.Mutex // guards tail
	tail []string
}

// read logs lines, as long as there are not too many of them.
func (s *complaints) read(stderr io.Reader) {
	in := bufio.NewReaderSize(stderr, 4<<10)
	dropped := 0
	for {
		line, err := in.ReadSlice('\n')
		text := strings.TrimRight(strings.ToValidUTF8(string(line), "?"), "\r\n")
		if text != "" {
			s.note(text)
			if !s.brake.allow(time.Now()) {
				dropped++
			} else {
				if dropped > 0 {
					s.log("(%d lines dropped)", dropped)
					dropped = 0
				}
				s.log("%s", text)
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

func (s *complaints) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, strings.TrimSpace(text))
	s.tail = s.tail[max(0, len(s.tail)-5):]
}

// last returns the last words.
func (s *complaints) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.Join(s.tail, " / ")
	return words[max(0, len(words)-500):]
}
