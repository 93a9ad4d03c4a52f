//go:build linux

package gvisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/process"
)

// A machine is one sandbox.
type machine struct {
	d       *Driver
	spec    vmm.Spec
	sandbox *process.Process
	gofer   *process.Process
	ports   *ports
	guessed bool // whether it was restored with programs that may not be those it was saved with
	done    chan struct{}
	err     error // valid after done

	asking sync.Once
	asked  chan struct{} // closed when Stop or Kill have asked it to end

	releasing sync.Once
	released  chan struct{}
	watched   chan struct{} // closed when watch has returned
}

// notes are what runsc itself keeps of a machine, from before that begins.
type notes struct {
	ID       string
	Status   string
	GoferPid int
	Sandbox  struct{ Pid int }
}

func readNotes(dir string) (notes, error) {
	var n notes
	files, _ := filepath.Glob(filepath.Join(dir, "runsc", "*.state"))
	if len(files) != 1 {
		return n, fmt.Errorf("runsc has no notes of a sandbox")
	}
	err := fs.ReadJSON(files[0], &n)
	return n, err
}

// family is the processes of the machine in dir.
func family(dir string) process.Family {
	return process.Family{Names: []string{enterName, "runsc", "runsc-sandbox", "runsc-gofer"}, Mark: dir}
}

func newMachine(s vmm.Spec) *machine {
	return &machine{spec: s, done: make(chan struct{}), asked: make(chan struct{}),
		released: make(chan struct{}), watched: make(chan struct{})}
}

// attach returns the running machine of s whose processes are in n. It has
// no ports yet and is not watched.
func attach(s vmm.Spec, n notes) (*machine, error) {
	m := newMachine(s)
	var err error
	if m.sandbox, err = family(s.Dir).Open(n.Sandbox.Pid); err != nil {
		return nil, err
	}
	if m.gofer, err = family(s.Dir).Open(n.GoferPid); err != nil {
		m.sandbox.LetGo()
		return nil, err
	}
	return m, nil
}

const (
	// goferLost is how long a sandbox may go on whose gofer failed. One that ends
	// does not need that; any other can only hang.
	goferLost = time.Second
	// goferAlone is how long a gofer may go on without its sandbox, and a sandbox
	// without a gofer that has ended well: it is on its way out, maybe slowly.
	goferAlone = time.Minute
)

// watch waits for the end of the machine, and sees to it that nothing is left.
func (m *machine) watch() {
	defer close(m.watched)
	var err error
	select {
	case <-m.released:
		return
	case <-m.sandbox.Gone():
	case <-m.gofer.Gone():
		err = m.gofer.How("gofer")
		alone := goferLost
		if err == nil { // the sandbox has hung up
			alone = goferAlone
		}
		select {
		case <-m.released:
			return
		case <-m.sandbox.Gone():
		case <-time.After(alone):
			m.sandbox.Signal(unix.SIGKILL)
			<-m.sandbox.Gone()
		}
	}
	select {
	case <-m.released: // which ends what gone says, too
		return
	default:
	}
	if how := m.sandbox.How("sandbox"); err == nil {
		err = cmp.Or(m.goferKilled(), how)
	}
	if ws, ok := m.sandbox.Status(); ok && ws.Exited() && ws.ExitStatus() == crashed && m.guessed {
		err = fmt.Errorf("%w: %w", err, errGuessed)
	}
	m.gofer.Signal(unix.SIGKILL)
	<-m.gofer.Gone()
	m.gofer.Status()
	m.err = err
	m.ports.remove()
	os.RemoveAll(m.spec.Dir)
	m.letGo()
	close(m.done)
}

// goferKilled says how the gofer ended if a signal ended it. A sandbox that
// loses its gofer ends by itself, and may be seen to end first, with the gofer
// still on its way out.
func (m *machine) goferKilled() error {
	select {
	case <-m.asked:
		return nil
	default:
	}
	select {
	case <-m.gofer.Gone():
	case <-m.asked: // nobody waits for a gofer that hangs
		return nil
	case <-time.After(goferAlone):
		return nil
	}
	if ws, ok := m.gofer.Status(); ok && ws.Signaled() {
		return fmt.Errorf("gofer ended: signal %s", ws.Signal())
	}
	return nil
}

// Done is closed when both processes have ended and their files are removed.
func (m *machine) Done() <-chan struct{} { return m.done }

// Err says how the sandbox ended.
func (m *machine) Err() error { return m.err }

// Stop sends SIGTERM to the guest's init: a sandbox passes on what it gets.
func (m *machine) Stop(ctx context.Context) error { return m.end(ctx, unix.SIGTERM) }

// Kill kills the sandbox.
func (m *machine) Kill(ctx context.Context) error { return m.end(ctx, unix.SIGKILL) }

func (m *machine) end(ctx context.Context, s unix.Signal) error {
	select {
	case <-m.done:
		return nil
	default:
	}
	m.ask()
	if err := m.sandbox.Signal(s); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("sandbox: %w", err)
	}
	select {
	case <-m.watched:
		return m.unwatched()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *machine) ask() { m.asking.Do(func() { close(m.asked) }) }

// unwatched returns an error if what is not watched any more has not ended.
func (m *machine) unwatched() error {
	select {
	case <-m.done:
		return nil
	default:
		return errReleased
	}
}

// errReleased is returned for a machine that is another process' to end.
var errReleased = errors.New("sandbox was released")

// letGo gives up the processes of a machine that is not watched.
func (m *machine) letGo() {
	m.sandbox.LetGo()
	m.gofer.LetGo()
}

// Release stops listening and watching. The guest dials again and again until
// another process listens.
func (m *machine) Release() {
	m.releasing.Do(func() {
		close(m.released)
		m.letGo()
		<-m.watched
		m.ports.close()
	})
}

// PIDs returns the sandbox's process, the gofer's, and those that carry the
// guest's threads.
func (m *machine) PIDs() []int {
	return append([]int{m.sandbox.PID(), m.gofer.PID()}, process.Children(m.sandbox.PID())...)
}

// State says only that the machine was started: the rest runsc has noted.
func (m *machine) State() []byte { return []byte("{}") }
