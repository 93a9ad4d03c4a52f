package agent

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"hutch/fs"
)

// The states of a command, as status shows them.
//
//	new ── exec ──→ starting ──→ running ──→ exited
//	 ↑                 │
//	 └── no program ───┘
type state string

const (
	stateNew      state = "new"
	stateStarting state = "starting"
	stateRunning  state = "running"
	stateExited   state = "exited"
)

// grace is how long a command has after SIGTERM, before SIGKILL.
const grace = 2 * time.Second

// A command is one exec/NAME: settings, then a process and its streams.
type command struct {
	a    *Agent
	name string
	num  uint64

	stdin          *input
	stdout, stderr *Spool
	ended          chan struct{} // closed when the process is collected
	dropped        chan struct{}
	work           sync.WaitGroup // copiers of output, the timeout
	last           fs.LastErr

	mu       sync.Mutex // guards what follows
	conf     settings
	state    state
	line     string // what runs, as words of a control message
	pid      int
	master   *os.File
	outputs  []*os.File
	begun    time.Time
	how      exit
	timedOut bool
	before   int64     // what kills said when it began
	oom      bool      // it was killed for want of memory
	known    []process // that were told to end when its time was up
	timer    *time.Timer
	opens    holders
	gone     bool
}

func newCommand(a *Agent, name string, num uint64) *command {
	return &command{
		a: a, name: name, num: num,
		stdin: newInput(), stdout: NewSpool(defaultLimit), stderr: NewSpool(defaultLimit),
		ended: make(chan struct{}), dropped: make(chan struct{}),
		state: stateNew, opens: make(holders), conf: settings{limit: defaultLimit},
	}
}

// change changes the settings of a command that has not begun.
func (c *command) change(f func(*settings)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != stateNew {
		return fmt.Errorf("%w: exec %s is %s: make another one", fs.ErrBusy, c.name, c.state)
	}
	f(&c.conf)
	return nil
}

// set changes the settings that may change at any time.
func (c *command) set(f func(*settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.conf)
	c.stdout.setLimit(c.conf.limit)
	c.stderr.setLimit(c.conf.limit)
	c.arm()
}

// run starts a program. If it cannot be started the command is as it was.
func (c *command) run(argv []string) error {
	var set settings
	err := c.change(func(conf *settings) {
		c.state = stateStarting
		c.begun, c.before = time.Now(), kills()
		set = *conf
		set.env = maps.Clone(conf.env)
	})
	if err != nil {
		return err
	}
	err = c.start(argv, &set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.state = stateNew
		return err
	}
	if c.state == stateStarting {
		c.state = stateRunning
	}
	c.line = fs.QuoteAll(argv)
	return nil
}

// start finds and starts the program, and connects its streams.
func (c *command) start(argv []string, set *settings) error {
	who, err := parseLogin(set.user)
	if err != nil {
		return err
	}
	dir, err := startDir(set.dir)
	if err != nil {
		return err
	}
	env := environment(c.a.vmEnv(), ownEnvironment(), set, who)
	env["PWD"], env["PATH"] = dir, withFolder(env["PATH"], c.a.cfg.Programs)
	file, err := find(argv[0], env["PATH"], dir)
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{
		Dir: dir, Env: environ(env),
		Sys: &syscall.SysProcAttr{Setsid: true, Credential: who.credential},
	}
	s, err := c.streams(set)
	if err != nil {
		return err
	}
	attr.Files = s.fds()
	attr.Sys.Setctty = s.master != nil
	pid, err := c.a.reaper.start(file, argv, attr, c.exited)
	if err != nil {
		s.undo(c.stdin)
		if errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.ENAMETOOLONG) { // as gVisor calls a long word
			return tooMuch(argv, attr.Env)
		}
		return startError(argv[0], dir, set.user, err)
	}
	c.begin(pid, s)
	return nil
}

// startError says why a program that is there could not be started.
func startError(name, dir, user string, err error) error {
	if user != "" && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)) {
		return fmt.Errorf("%w: %s in %s as user %s", fs.ErrPermission, name, dir, user)
	}
	return fmt.Errorf("%s: %w", name, reason(err))
}

// maxWord is the most that Linux and gVisor take as a word or a variable,
// without its NUL.
const maxWord = 128<<10 - 1

// tooMuch says what is too much of what a program was to be started with.
func tooMuch(argv, env []string) error {
	for _, w := range slices.Concat(argv, env) {
		if len(w) > maxWord {
			return fmt.Errorf("%w: a word or variable of %d bytes: at most %d; have the program read a file, or its input", fs.ErrArgs, len(w), maxWord)
		}
	}
	return fmt.Errorf("%w: %s with all words and variables", fs.ErrArgs, argv[0])
}

// begin notes the process and starts to read its output.
func (c *command) begin(pid int, s *streams) {
	s.closeChild()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid, c.master, c.outputs = pid, s.master, s.ours
	if c.gone { // dropped while it started
		killSession(pid, false, nil)
		closeAll(s.ours)
		return
	}
	if s.master != nil {
		c.stdin.attach(s.master)
		c.stderr.Finish()
		c.work.Go(func() { fillTerminal(c.stdout, s.master, c.ended) })
		if c.state == stateExited {
			ebb(s.master)
		}
	} else {
		c.work.Go(func() { fill(c.stdout, s.ours[0]) })
		c.work.Go(func() { fill(c.stderr, s.ours[1]) })
	}
	c.arm()
}

// arm starts the clock of a command that runs. It is called with mu held.
func (c *command) arm() {
	c.disarm()
	if c.conf.timeout <= 0 || c.pid == 0 || c.state == stateExited || c.gone {
		return
	}
	c.work.Add(1)
	c.timer = time.AfterFunc(time.Until(c.begun.Add(c.conf.timeout)), func() {
		defer c.work.Done()
		c.expire()
	})
}

func (c *command) disarm() {
	if c.timer != nil && c.timer.Stop() {
		c.work.Done()
	}
	c.timer = nil
}

// expire ends a command whose time is up, and all that it started.
func (c *command) expire() {
	c.mu.Lock()
	if c.state == stateExited {
		c.mu.Unlock()
		return
	}
	c.timedOut = true
	pid := c.pid
	c.mu.Unlock()
	known := signalSession(pid, syscall.SIGTERM, false, nil)
	signalSession(pid, syscall.SIGCONT, false, known)
	c.mu.Lock()
	c.known = known
	c.mu.Unlock()
	after := time.NewTimer(grace)
	defer after.Stop()
	ended := c.ended
	for {
		select {
		case <-ended:
			if ended = nil; len(members(pid, known)) == 0 {
				return
			}
		case <-after.C:
			killSession(pid, ended == nil, known)
			return
		case <-c.dropped:
			return
		}
	}
}

// exited is told by the reaper how the process ended.
func (c *command) exited(how exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.how = stateExited, how
	if s := how.status; s.Signal() == syscall.SIGKILL || s.ExitStatus() == 128+int(syscall.SIGKILL) {
		c.oom = kills() > c.before
	}
	c.disarm()
	close(c.ended)
	if c.master != nil {
		ebb(c.master)
	}
}

// signal sends a signal to all that the command started.
func (c *command) signal(sig syscall.Signal) error {
	c.mu.Lock()
	pid, st := c.pid, c.state
	if sig == syscall.SIGKILL {
		c.before = math.MaxInt64 // it is killed by us
	}
	c.mu.Unlock()
	if pid == 0 {
		return fmt.Errorf("%w: exec %s is %s", fs.ErrBusy, c.name, st)
	}
	if sig == syscall.SIGKILL {
		killSession(pid, st == stateExited, nil)
		return nil
	}
	if len(signalSession(pid, sig, st == stateExited, nil)) == 0 {
		return fmt.Errorf("%w: exec %s is %s", fs.ErrBusy, c.name, st)
	}
	return nil
}

// resize sets the size of the terminal, now or to be.
func (c *command) resize(to *size) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == stateNew:
		if err := c.stdin.terminal(); err != nil {
			return err
		}
		c.conf.tty = to
		return nil
	case c.master == nil:
		return fmt.Errorf("%w: exec %s has no terminal", fs.ErrBusy, c.name)
	}
	c.conf.tty = to
	return setSize(c.master, to)
}

// drop lets go of the streams, and kills whatever runs if kill is set.
// Readers that are still there can read what was kept.
func (c *command) drop(kill bool) {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	c.gone = true
	close(c.dropped)
	c.disarm()
	pid, exited, outputs, known := c.pid, c.state == stateExited, c.outputs, c.known
	c.mu.Unlock()
	switch {
	case pid == 0 || !kill:
	case exited: // there may be some left that it started: nobody waits for the search
		c.a.sweeps.Go(func() { killSession(pid, exited, known) })
	default:
		killSession(pid, exited, known)
	}
	c.stdin.drop()
	c.stdout.Abandon()
	c.stderr.Abandon()
	closeAll(outputs)
	c.work.Wait()
	c.stdout.Finish()
	c.stderr.Finish()
}

// hold counts an open file of the command; the function it returns counts it
// out, and kills the command if it was the last one and that was asked for.
func (c *command) hold(from *session) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens[from]++
	return func() {
		c.mu.Lock()
		kill := c.opens.leave(from) && c.conf.killOnClose && c.pid != 0
		pid, exited := c.pid, c.state == stateExited
		c.mu.Unlock()
		if kill {
			killSession(pid, exited, nil)
		}
	}
}

// settings returns the settings as control messages.
func (c *command) settings() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conf.text()
}

// cmd returns what runs, empty before that.
func (c *command) cmd() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line == "" {
		return ""
	}
	return c.line + "\n"
}
