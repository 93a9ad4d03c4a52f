package agent

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// An exit is how a process ended.
type exit struct {
	status    syscall.WaitStatus
	user, sys time.Duration
	at        time.Time
}

// A reaper collects the processes that the agent starts and, as PID 1, the
// orphans that the kernel gives it. Nobody else in the program may wait for
// children. Its one goroutine asks at each SIGCHLD; a command costs no thread.
type reaper struct {
	orphans bool     // every child is ours to collect
	group   *os.File // where commands are started; nil: where this process is

	mu       sync.Mutex // guards what follows
	known    map[int]func(exit)
	starting int // processes being started: not known yet, not to be taken for orphans

	kick      chan struct{} // a process has been started
	collected chan struct{} // some may have ended since this was last received
	stop      chan struct{}
	done      chan struct{}
}

func newReaper(orphans bool, group *os.File) *reaper {
	r := &reaper{
		orphans:   orphans,
		group:     group,
		known:     make(map[int]func(exit)),
		kick:      make(chan struct{}, 1),
		collected: make(chan struct{}, 1),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	go r.run(child)
	return r
}

func (r *reaper) run(child chan os.Signal) {
	defer close(r.done)
	defer signal.Stop(child)
	for {
		select {
		case <-child:
		case <-r.kick:
		case <-r.stop:
			r.collect() // also what ended just now
			return
		}
		r.collect()
	}
}

func (r *reaper) close() {
	close(r.stop)
	<-r.done
}

// fork starts a program; ended is called when it ends.
func (r *reaper) fork(path string, argv []string, attr *syscall.ProcAttr, ended func(exit)) (int, error) {
	r.mu.Lock()
	r.starting++
	r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	r.mu.Lock()
	if err == nil {
		r.known[pid] = ended
	}
	r.starting--
	r.mu.Unlock()
	pulse(r.kick) // it may have ended before it was known
	return pid, err
}

// pulse makes the next receive from c succeed.
func pulse(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// collect takes every status there is and hands it over. While a process is
// being started only the known ones are asked for, one by one: an unknown
// status may be its.
func (r *reaper) collect() {
	type ending struct {
		told func(exit)
		how  exit
	}
	var list []ending
	r.mu.Lock()
	take := func(pid int) bool {
		got, how := wait(pid)
		told := r.known[got]
		if got > 0 && told != nil {
			delete(r.known, got)
			list = append(list, ending{told, how})
		}
		return got > 0
	}
	if r.orphans && r.starting == 0 {
		for take(-1) {
		}
	} else {
		for pid := range r.known {
			take(pid)
		}
	}
	r.mu.Unlock()
	for _, e := range list {
		e.told(e.how)
	}
	pulse(r.collected)
}

// wait collects pid, or any child if it is -1, if it has ended.
func wait(pid int) (int, exit) {
	var status syscall.WaitStatus
	var usage syscall.Rusage
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &usage)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, exit{}
		}
		return got, exit{
			status: status,
			user:   time.Duration(usage.Utime.Nano()),
			sys:    time.Duration(usage.Stime.Nano()),
			at:     time.Now(),
		}
	}
}
