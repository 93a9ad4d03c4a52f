package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"hutch/aggd/programs"
	"hutch/fs"
	"hutch/relay/guest"
)

const (
	// programTime is how long the guest may take to start a program.
	programTime = 30 * time.Second
	// killTime is how long it may take to hear that it is to kill one.
	killTime = time.Second
)

// A Program is a command of the sandbox whose input and output are descriptors of
// the host, as those of an MCP server that an aggregator speaks with. It is a
// programs.Task.
type Program struct {
	v      *Sandbox
	e      *guest.Exec
	start  programs.Start
	wanted context.Context // ends when it is given up, as when the guest does not answer, and when all is done
	giveUp context.CancelFunc
	ctx    context.Context // ends when it has ended, too
	cancel context.CancelFunc
	how    string // it has ended, when it has
	exited chan struct{}
}

// StartProgram starts a program in the guest as its exec called name. One that has
// a Port runs when it listens there.
func (v *Sandbox) StartProgram(ctx context.Context, name string, given Given, s programs.Start) (*Program, error) {
	p := &Program{v: v, start: s, exited: make(chan struct{})}
	p.wanted, p.giveUp = context.WithCancel(v.Context())
	p.ctx, p.cancel = context.WithCancel(p.wanted)
	err := p.unheard(ctx)
	if err == nil {
		err = p.begin(ctx, name, given)
	}
	if err == nil && !v.Do(p.run) {
		err = fmt.Errorf("%w: %s", fs.ErrNotExist, v.Gateway)
	}
	if err != nil {
		s.In.Close() // which a nil file refuses
		s.Out.Close()
		defer p.giveUp()
		defer context.AfterFunc(ctx, p.giveUp)()
		p.remove()
		return nil, v.WhyGone(err)
	}
	if err := p.listening(ctx); err != nil {
		p.Kill()
		return nil, v.WhyGone(err)
	}
	return p, nil
}

// A Given is what a program gets beside what its definition says.
type Given struct {
	Env  map[string]string // which its own goes before
	User string            // as the verb user of an exec has it; "": the agent's
}

// begin has the guest start the command.
func (p *Program) begin(ctx context.Context, name string, given Given) error {
	ctx, cancel := context.WithTimeoutCause(ctx, programTime, fmt.Errorf("%w: the guest does not answer", fs.ErrTimedOut))
	defer cancel()
	g, err := p.v.Guest()
	if err != nil {
		return err
	}
	if p.e, err = g.MakeExec(ctx, name); err != nil {
		return err
	}
	all := make(map[string]string)
	maps.Copy(all, given.Env)
	maps.Copy(all, p.start.Env)
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, fs.QuoteAll([]string{"env", k, all[k]}))
	}
	if p.start.Dir != "" {
		lines = append(lines, fs.QuoteAll([]string{"dir", p.start.Dir}))
	}
	if given.User != "" {
		lines = append(lines, fs.QuoteAll([]string{"user", given.User}))
	}
	lines = append(lines, fs.QuoteAll(append([]string{"exec", p.start.Command}, p.start.Args...)))
	if p.start.In == nil {
		lines = append(lines, "eof")
	}
	return p.e.Ctl(ctx, lines...)
}

// run carries what the program reads and writes until it has ended.
func (p *Program) run() {
	p.v.programs.Add(1)
	defer close(p.exited)
	defer p.v.programs.Add(-1)
	defer p.giveUp()
	defer context.AfterFunc(p.ctx, func() { p.start.Out.Close() })() // ends a write that nobody reads
	out := p.start.Log
	if p.start.Out != nil {
		out = p.start.Out
	}
	carried := []<-chan struct{}{
		p.beside(p.feed), // a read of a pipe ends when that is closed
		p.beside(func() { p.drain("stdout", out) }),
		p.beside(func() { p.drain("stderr", p.start.Log) }),
	}
	line, err := p.e.Wait(p.ctx)
	p.start.In.Close()
	stop := time.AfterFunc(lingering, p.cancel) // of what the program has left behind
	for _, done := range carried {
		p.await(done)
	}
	stop.Stop()
	p.start.Out.Close()
	p.remove()
	p.how = howEnded(line, p.v.WhyGone(err))
	p.start.Gone(p.how)
}

// feed passes on what is written to the program, and then the end of that.
func (p *Program) feed() {
	if p.start.In == nil {
		return
	}
	f, err := p.e.Open(p.ctx, "stdin", os.O_WRONLY)
	if err != nil {
		return
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := p.start.In.Read(buf)
		for done := 0; done < n; {
			w, err := f.WriteAt(p.ctx, buf[done:n], off)
			if err != nil {
				return
			}
			done, off = done+w, off+int64(w)
		}
		if err != nil {
			return
		}
	}
}

// drain passes on what the program writes to a stream.
func (p *Program) drain(stream string, to io.Writer) {
	f, err := p.e.Open(p.ctx, stream, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := f.ReadAt(p.ctx, buf, off)
		if n == 0 || err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		off += int64(n)
	}
}

// howEnded puts the line of a wait as a process of the host says it.
func howEnded(line string, err error) string {
	how, _, _ := strings.Cut(line, " ")
	switch {
	case err != nil && how == "":
		return fs.Text(err)
	case strings.HasPrefix(how, "SIG"):
		return "signal: " + how
	}
	return "exit status " + how
}

// remove takes the exec out of the guest, which kills what is left of it.
func (p *Program) remove() {
	if p.e == nil {
		return
	}
	p.await(p.beside(func() {
		ctx, cancel := context.WithTimeout(p.v.Context(), lateness)
		defer cancel()
		p.e.Remove(ctx)
	}))
}

// beside does f, which asks the guest, on a goroutine, and returns what is closed when that
// is done. The sandbox waits for it.
func (p *Program) beside(f func()) <-chan struct{} {
	done := make(chan struct{})
	if !p.v.Do(func() {
		defer close(done)
		f()
	}) {
		close(done)
	}
	return done
}

// await waits for what beside does, but for no guest that was given up: to end what it was
// asked may take as long as its answer.
func (p *Program) await(done <-chan struct{}) {
	select {
	case <-done:
	case <-p.wanted.Done():
	}
}

// Exited is closed when nothing of the program is left, or its guest was given up.
func (p *Program) Exited() <-chan struct{} { return p.exited }

// Terminate asks the program to end, by SIGTERM. It does not wait for the guest to hear
// of that.
func (p *Program) Terminate() {
	p.beside(func() {
		ctx, cancel := context.WithTimeout(p.ctx, lateness)
		defer cancel()
		if err := p.e.Ctl(ctx, "signal TERM"); err != nil && !errors.Is(err, context.Canceled) {
			p.v.Trouble("server", fs.Text(err))
		}
	})
}

// Kill kills the program with all it started, and waits for its end. A guest that
// does not hear of it, or does not do so, is not waited for.
func (p *Program) Kill() {
	heard := p.beside(func() {
		ctx, cancel := context.WithTimeout(p.ctx, lateness)
		defer cancel()
		p.e.Ctl(ctx, "kill")
	})
	select {
	case <-heard:
		programs.Await(p, lateness)
	case <-p.exited:
	case <-time.After(killTime):
	}
	p.giveUp()
	<-p.exited
}

// PID is 0: the program has no process of its own on the host.
func (p *Program) PID() int { return 0 }
