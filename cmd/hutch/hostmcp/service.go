package hostmcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
)

// startLimit is how long a hutchd that was started may take to serve its tree.
const startLimit = 30 * time.Second

// A service is the hutchd at an address, which is started if there is none.
type service struct {
	addr    string
	program string   // hutchd
	args    []string // for it, beside the address
	log     io.Writer
	turn    chan struct{} // holds a token while nobody starts one

	met  atomic.Bool // one has served
	ours atomic.Bool // we have started one
}

func newService(c Config) *service {
	s := &service{addr: c.Address, program: c.Program, args: c.Args, log: c.Log, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// dial connects to the tree, of a service that is started if none runs. One that
// somebody else has started is not ours to start again: it may have another state.
func (s *service) dial(ctx context.Context) (*tree, error) {
	t, err := dial(ctx, s.addr)
	for range 2 {
		if !errors.Is(err, client.ErrLost) {
			break
		}
		t, err = dial(ctx, s.addr) // it ended just then, and nothing was asked of it yet
	}
	switch {
	case !nobody(err):
		if err == nil {
			s.met.Store(true)
		}
		return t, err
	case s.met.Load() && !s.ours.Load():
		return nil, fmt.Errorf("%w: the hutchd at %s has ended, and hutch mcp had not started it: start it again", fs.ErrNotExist, s.addr)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if t, err = dial(ctx, s.addr); err == nil {
		s.met.Store(true)
	}
	return t, err
}

// Start starts the hutchd of c where nobody serves at its address, and says on c.Log that
// it did.
func Start(ctx context.Context, c Config) error { return newService(c).start(ctx) }

// Nobody says whether err, of a dial, is that nobody serves at an address where a hutchd
// can be started.
func Nobody(address string, err error) bool {
	return nobody(err) && strings.HasPrefix(address, "unix!")
}

// nobody says whether err is that nobody serves at an address.
func nobody(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

// start starts hutchd and waits until it serves. Of several who do that at
// once, in this process or in others, one does; the others wait for it.
func (s *service) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("%w: hutchd does not serve within %v", fs.ErrTimedOut, startLimit))
	defer cancel()
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	network, path, err := ninep.SplitAddr(s.addr)
	if err != nil {
		return err
	}
	if network != "unix" {
		return fmt.Errorf("%w: nobody serves at %s, and hutchd is started at unix sockets only", fs.ErrNotExist, s.addr)
	}
	lock, err := lockStart(ctx, path+".start")
	if err != nil {
		return err
	}
	defer lock.Close()
	t, err := dial(ctx, s.addr)
	if err == nil {
		t.close()
	}
	if !nobody(err) {
		return err
	}
	return s.launch(ctx)
}

// lockStart takes the lock of those who start hutchd at a socket.
func lockStart(ctx context.Context, path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	case <-ctx.Done():
		go func() { // who has it gives it back in time
			<-locked
			f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}

// launch starts hutchd, which goes on when we end, and waits for its first
// line, which says that it serves.
func (s *service) launch(ctx context.Context) error {
	cmd := exec.Command(s.program, append([]string{"-listen", s.addr, "-quiet"}, s.args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // our terminal's signals are not its
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("no hutchd serves at %s, and none can be started: %w", s.addr, err)
	}
	began := make(chan error, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		if strings.HasPrefix(line, "ready ") {
			began <- nil
			cmd.Wait()
			return
		}
		werr := cmd.Wait()
		why, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n") // a flag that it does not know has its usage behind
		began <- fmt.Errorf("%w: hutchd ended (%v): %s", fs.ErrIO, werr, why)
	}()
	select {
	case err := <-began:
		if t, derr := dial(ctx, s.addr); derr == nil { // ours, or that of somebody who was faster
			defer t.close()
			s.ours.Store(s.ours.Load() || err == nil)
			s.tellStarted(ctx, t, cmd.Process.Pid, err == nil)
			return nil
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tellStarted says where the log of the service is that was started.
func (s *service) tellStarted(ctx context.Context, t *tree, pid int, ours bool) {
	settings, err := t.text(ctx, "ctl")
	if err != nil || !ours {
		return
	}
	fmt.Fprintf(s.log, "hutch: started hutchd, process %d; its log is %s\n", pid, filepath.Join(pairs(settings)["state"], "log", "service"))
}

type versions struct {
	Version   string `json:"version"`
	Connected bool   `json:"connected"`
	Service   string `json:"service"` // its version, or why it is not reached
	Address   string `json:"address"`
}

func (c *call) version(ctx context.Context) (any, error) {
	v := versions{Version: c.h.version, Address: c.h.service.addr}
	t, err := c.h.service.dial(ctx)
	if err != nil {
		v.Service = errorText(err)
		return v, nil
	}
	defer t.close()
	v.Connected = true
	v.Service, err = t.text(ctx, "version")
	v.Service = strings.TrimSpace(v.Service)
	return v, err
}
