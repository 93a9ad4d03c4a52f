package programs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// A running is a program that runs.
type running struct {
	server   string
	confined bool
	p        *process.Process
	said     *complaints
	how      string        // it ended, when it has
	grace    time.Duration // after SIGTERM
	once     sync.Once
}

// startProgram starts a program, and returns the other ends of its pipes: what it
// reads, and what it writes.
func startProgram(d definition, grace time.Duration, log io.Writer) (*running, [2]*os.File, error) {
	env := environment(d.Program)
	path, err := lookPath(d.Command, env)
	if err != nil {
		return nil, [2]*os.File{}, err
	}
	stdin, in, err1 := os.Pipe()
	out, stdout, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		closeAll([]*os.File{stdin, in, out, stdout}) // a nil file refuses
		return nil, [2]*os.File{}, fmt.Errorf("start: %w", err)
	}
	r := &running{server: d.Server, confined: d.Confined, said: newComplaints(d.Server, log), grace: cmp.Or(grace, termGrace)}
	r.p, err = process.Start(process.Config{
		Path: path, Name: d.Command, Args: d.Args, Env: env, Dir: d.Dir, Confined: d.Confined,
		In: stdin, Out: stdout, Log: r.said, Gone: func(how string) { r.how = how },
	})
	if err != nil {
		closeAll([]*os.File{in, out})
		return nil, [2]*os.File{}, fmt.Errorf("start: %w", err)
	}
	return r, [2]*os.File{in, out}, nil
}

// stop ends the program, whose input has ended, by SIGTERM, and then by force; and
// waits.
func (r *running) stop() {
	r.once.Do(func() {
		if r.p.Wait(inputGrace) {
			return
		}
		r.p.Terminate()
		if !r.p.Wait(r.grace) {
			r.p.Kill()
		}
	})
}

// defaultPath is where programs are looked for when nobody says.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of a program: its own, and of hutchd's
// nothing.
func environment(p wire.Program) []string {
	if p.Confined {
		return nil
	}
	all := map[string]string{"PATH": defaultPath, "HOME": "/"}
	if u, err := user.Current(); err == nil {
		all["HOME"] = u.HomeDir
	}
	maps.Copy(all, p.Env)
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
		if _, err := os.Stat(command); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("start: there is no program %s", command)
		}
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
