// Package agent runs commands inside a guest for the host. It dials the
// host's port 5000 and serves a tree over 9P on it:
//
//	ctl err                what the agent itself is told, and its last error
//	load                   how many processes and commands there are
//	cons                   a login shell on a terminal
//	root/                  the guest's files, from /
//	exec/NAME/             a command, made by mkdir and dropped by rmdir
//	    ctl cmd status     settings and control; what runs; how it is
//	    stdin stdout stderr
//	    wait err           blocks until the end; the last error
//	net/tcp/NAME/          a connection to a port, made and dropped likewise
//	    ctl status data err
//
// The commands and their output belong to the agent and not to a connection:
// when that is lost, because hutchd died or the sandbox was restored from a
// checkpoint, the agent dials again and everything is as it was. Connections
// to ports end with it.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/fs/folder"
)

// A Config is what an agent needs. The zero value of each field but Dial is
// of use.
type Config struct {
	Dial func(context.Context) (net.Conn, error) // connects to the host
	Init bool                                    // the agent is PID 1: every orphan is its child
	Keep func(pid int) bool                      // says which processes an init does not end; nil: none
	// Group is the folder of the control group that commands are started in,
	// on Linux; nil: the agent's own.
	Group   *os.File
	Machine Machine // the guest's own kernel, if it has one
	// Programs is the folder that is last in the PATH of every command,
	// whatever that is set to; empty: none is.
	Programs string
	Log      *slog.Logger // nil: nothing is logged
}

// A Machine is a kernel that its host tells what it cannot know by itself.
type Machine interface {
	SetClock(now time.Time) error
	SetHostname(name string) error
}

// An Agent is what a guest runs for the host.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	reaper *reaper
	root   *folder.Folder
	cons   *console
	sweeps sync.WaitGroup // searches for what dropped commands left

	session atomic.Pointer[session] // the newest connection

	down     chan struct{} // closed by Shutdown
	downOnce sync.Once
	last     fs.LastErr

	mu       sync.Mutex // guards what follows
	commands map[string]*command
	num      uint64
	env      variables
}

// New returns an agent with no commands.
func New(cfg Config) (*Agent, error) {
	root, err := folder.Open("/", "root")
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, log: cfg.Log, root: root,
		reaper:   newReaper(cfg.Init, cfg.Group),
		down:     make(chan struct{}),
		commands: make(map[string]*command),
		env:      make(variables),
	}
	if a.cfg.Keep == nil {
		a.cfg.Keep = func(int) bool { return false }
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.cons = &console{a: a}
	return a, nil
}

// Shutdown makes Run return after it has ended everything.
func (a *Agent) Shutdown() { a.downOnce.Do(func() { close(a.down) }) }

// Close kills all commands and lets go of everything. No connection may be
// served any more.
func (a *Agent) Close() error {
	for _, name := range a.names() {
		a.remove(name)
	}
	a.cons.drop()
	a.sweeps.Wait()
	a.reaper.close()
	return a.root.Close()
}

// number returns a number that was never used.
func (a *Agent) number() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.num++
	return a.num
}

func (a *Agent) add(name string) error {
	c := newCommand(a, name, a.number())
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.commands[name] != nil {
		return fmt.Errorf("%w: exec %s", fs.ErrExist, name)
	}
	a.commands[name] = c
	return nil
}

func (a *Agent) remove(name string) error {
	a.mu.Lock()
	c := a.commands[name]
	delete(a.commands, name)
	a.mu.Unlock()
	if c == nil {
		return fmt.Errorf("%w: exec %s", fs.ErrNotExist, name)
	}
	c.drop(true)
	return nil
}

func (a *Agent) command(name string) *command {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.commands[name]
}

func (a *Agent) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.commands))
}

// Prepare makes the folders that programs expect and a bare image lacks, and
// keeps to the agent what only the agent is to have. An init calls it before
// New; what cannot be made is left out.
func Prepare() {
	keepRoom()
	if os.Getpid() == 1 {
		boundTCP()
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if err := os.MkdirAll(dir, 0o755); err == nil {
			os.Chmod(dir, 0o777|os.ModeSticky)
		}
	}
}
