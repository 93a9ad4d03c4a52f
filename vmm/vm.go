package vmm

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hutch/fs"
	"hutch/relay/guest"
	"hutch/vmm/image"
	"hutch/vmm/snapshot"
)

// A VM is one sandbox. Its methods may be called concurrently.
type VM struct {
	dir string
	t   *Table

	life    context.Context // ends when the VM is removed, or the table closed
	end     context.CancelFunc
	errands sync.WaitGroup // what is done for the VM beside the owner
	snaps   *snapshot.Store
	side    Sidecar

	snapping       chan struct{} // is full while a snapshot is taken: one at a time
	undoing        chan struct{} // while one for undo is, or something is undone
	comparing      chan struct{} // while folders are compared
	guestComparing chan struct{} // while they are since the guest asked
	packs          chan struct{} // has a token for each archive that is made
	unpacks        chan struct{} // is full while one is unpacked

	posts chan func()   // to the owner goroutine
	quit  chan struct{} // closed by the owner to end itself
	ended chan struct{} // closed when the owner has ended

	// The owner's own.
	machine Machine          // nil unless the state is alive
	meter   *meter           // of the machine, while it runs
	due     <-chan time.Time // the next automatic snapshot; nil: none
	gone    bool             // removed
	served  bool             // the sidecar was begun, and has not ended
	damage  error            // what was wrong with the state file

	asked chan struct{} // somebody wants to know what is used

	used atomic.Int64 // when the VM was used last, but for its guest: Unix time in nanoseconds

	seenMu sync.Mutex // guards seen; never held across a call that can wait
	seen   seen
}

// seen is what others see of a VM. The owner changes it.
type seen struct {
	stored
	config    Config                  // in force
	text      string                  // of the config file in force
	bad       string                  // a later text that does not parse; "" if none
	err       error                   // the last error of the VM
	guest     *guest.Guest            // while the state is alive, and kept while the VM is suspended
	pids      []int                   // the machine's processes
	mem       memory                  // the last measurement of them
	use       usage                   // of what is limited
	killed    time.Time               // when the host was last seen to have killed a process for want of memory
	interrupt context.CancelCauseFunc // ends what the owner waits for in a start or stop; nil if nothing
	kills     int                     // that are under way: the owner waits for nothing then
	ending    Ending                  // how the last machine ended, or is ending
}

func newVM(t *Table, name, dir string, s stored) *VM {
	v := &VM{
		dir: dir, t: t,
		posts: make(chan func(), 64), quit: make(chan struct{}), ended: make(chan struct{}), asked: make(chan struct{}, 1),
		snapping: make(chan struct{}, 1), undoing: make(chan struct{}, 1), comparing: make(chan struct{}, 1), guestComparing: make(chan struct{}, 1),
		packs: make(chan struct{}, maxPacks), unpacks: make(chan struct{}, 1),
	}
	v.life, v.end = context.WithCancel(t.life)
	v.snaps = snapshot.Open(v.path("snap"))
	s.Name = name
	v.seen.stored = s
	v.side = t.cfg.Sidecar(v)
	return v
}

// Name returns the VM's name: a number for an anonymous one.
func (v *VM) Name() string { return v.look().Name }

// Anonymous says whether the VM goes when it is stopped.
func (v *VM) Anonymous() bool { return v.look().Anonymous }

// Dir returns the VM's own folder on the host.
func (v *VM) Dir() string { return v.dir }

// WorkDir returns the folder on the host that is the guest's /workspace.
func (v *VM) WorkDir() string { return filepath.Join(v.dir, "work") }

// State returns the VM's state.
func (v *VM) State() State { return v.look().State }

// Guest returns the agent of the guest that is starting, running or stopping.
func (v *VM) Guest() (*guest.Guest, error) {
	s := v.look()
	if s.State == Suspended {
		return nil, fmt.Errorf("%w: %s", fs.ErrBusy, v.suspendedText())
	}
	if s.guest != nil {
		return s.guest, nil
	}
	return nil, v.notRunning()
}

// An Ending is how a VM's machine ended.
type Ending struct {
	Why     string // empty while it runs, and where nobody knows
	Orderly bool   // its commands were asked to end
}

// Ending tells of the machine that there was last.
func (v *VM) Ending() Ending { return v.look().ending }

// Err returns the last error of the VM, nil if there was none.
func (v *VM) Err() error { return v.look().err }

// PIDs returns the processes of the machine, if there is one.
func (v *VM) PIDs() []int { return v.look().pids }

func (v *VM) look() seen {
	v.seenMu.Lock()
	defer v.seenMu.Unlock()
	return v.seen
}

func (v *VM) change(f func(s *seen)) {
	v.seenMu.Lock()
	defer v.seenMu.Unlock()
	f(&v.seen)
}

// store has f change what the state file says, and writes that.
func (v *VM) store(sync bool, f func(s *seen)) error {
	var now stored
	v.change(func(s *seen) {
		f(s)
		now = s.stored
	})
	return now.save(v.dir, sync)
}

// fail notes err as the VM's last error and returns it.
func (v *VM) fail(err error) error {
	if err != nil {
		v.change(func(s *seen) { s.err = err })
	}
	return err
}

// own is the owner goroutine: it does what is posted, in order, and notices
// when the machine ends by itself.
func (v *VM) own() {
	defer close(v.ended)
	for {
		var died <-chan struct{}
		if v.machine != nil {
			died = v.machine.Done()
		}
		select {
		case f := <-v.posts:
			f()
		case <-died:
			v.machineEnded()
		case <-v.due:
			v.turnRing()
		case <-v.quit:
			return
		}
	}
}

// do has the owner do f, and returns its error. When ctx ends first, f is
// done all the same.
func (v *VM) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	post := func() {
		if v.gone {
			done <- notExist(v.Name())
			return
		}
		done <- v.fail(f())
	}
	select {
	case v.posts <- post:
	case <-v.ended:
		return notExist(v.Name())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-v.ended:
		select {
		case err := <-done:
			return err
		default:
			return notExist(v.Name())
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func notExist(name string) error { return fmt.Errorf("%w: no vm %.80q", fs.ErrNotExist, name) }

// enter puts the VM into state s, on disk too, and tells of it.
func (v *VM) enter(s State, reason string, kind Kind) {
	v.note(s, reason)
	v.event(kind, reason)
}

// note puts the VM into state s, on disk too.
func (v *VM) note(s State, reason string) {
	note := func(now *seen) {
		now.State, now.Reason, now.Since = s, reason, time.Now()
		if v.machine != nil {
			now.Machine, now.pids, now.Programs = v.machine.State(), v.machine.PIDs(), programs(v.machine)
		} else {
			now.Machine, now.pids, now.mem, now.use.ram, now.use.processes = nil, nil, memory{}, 0, 0
		}
	}
	if s == Stopping { // which, found after a crash, is as good as running
		v.change(note)
	} else if err := v.store(!s.alive() && !v.Anonymous(), note); err != nil {
		v.fail(fmt.Errorf("%w: state of vm %q is not saved: %w", fs.ErrIO, v.Name(), err))
	}
	if !s.alive() && s != Suspended {
		os.Remove(v.path(variablesName)) // there is no memory that has them
	}
}

// conn takes a connection that the guest made.
func (v *VM) conn(port uint32, c net.Conn) {
	if port != PortAgent {
		v.side.Conn(port, c)
	} else if g, err := v.Guest(); err == nil {
		g.Attach(c)
	} else {
		c.Close()
	}
}

// refused tells of a connection that the driver did not take.
func (v *VM) refused(port uint32, why string) {
	v.event(EventRefused, fmt.Sprintf("connection to port %d refused: %s", port, why))
}

// spec returns what the VM's driver is to start from img, with the variables
// env of its own.
func (v *VM) spec(c Config, img image.Image, env []string) Spec {
	s := Spec{
		Name: v.Name(), Hostname: c.Hostname, Image: img, Net: c.Net, Kernel: c.Kernel, RAM: c.RAM, CPUs: processors(c.CPUs), PIDs: c.PIDs,
		Env: slices.Concat(v.given(c, img), env),
		Dir: filepath.Join(v.dir, "machine"), Layer: filepath.Join(v.dir, "layer"),
		Work: v.WorkDir(), Ports: filepath.Join(v.dir, "ports"),
		Serial: v.path("log/serial"), Log: v.path("log/process"), Conn: v.conn, Refused: v.refused,
	}
	if s.Hostname == "" {
		s.Hostname = v.Name()
	}
	return s
}

// GivenEnv returns the variables that the guest has besides the VM's own, as
// K=V, of which the last of a name counts.
func (v *VM) GivenEnv() ([]string, error) {
	c := v.Config()
	img, err := v.t.images.Lookup(c.Image)
	if err != nil {
		return nil, err
	}
	return v.given(c, img), nil
}

func (v *VM) given(c Config, img image.Image) []string {
	return slices.Concat([]string{"PATH=" + guestPath, "HOME=/root"}, imageEnv(img), proxyEnv(c.Net), v.t.profile(c).Env)
}

// guestPath is the guest's PATH; its last folder has hutch's own programs.
const (
	guestPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" + guestBin
	guestBin  = "/opt/hutch/bin"
)

// pinsFolder is where the VM's owner keeps what was approved of servers' tools.
const pinsFolder = "pins"

// makeFolders makes the folders of a VM, unless they are there.
func makeFolders(dir string) error {
	for _, name := range []string{"env", "work", "layer", "ports", "log", pinsFolder} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return nil
}
