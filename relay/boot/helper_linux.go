package boot

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// A helper is the process that connects the ports of the host and mounts its
// folders. Should it end, it is started again.
type helper struct {
	shares string
	pid    atomic.Int64
}

// startHelper starts the helper and waits until the host's folders are there,
// which they are not before the host is.
func startHelper(shares []Share) (*helper, error) {
	text, err := json.Marshal(shares)
	if err != nil {
		return nil, err
	}
	h := &helper{shares: string(text)}
	life, err := h.start()
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(life)
	if word, err := in.ReadString('\n'); err != nil || word != Ready {
		return nil, errors.New("it ended")
	}
	go h.keep(life)
	return h, nil
}

// start starts the process. The file that it returns ends with it.
func (h *helper) start() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"hutch-guest", "ports", h.shares}, &syscall.ProcAttr{
		Dir: "/", Env: []string{},
		Files: []uintptr{null.Fd(), 1, 2, w.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	h.pid.Store(int64(pid))
	return r, nil
}

// keep starts the helper again whenever it has ended. The agent collects it.
func (h *helper) keep(life *os.File) {
	for {
		io.Copy(io.Discard, life) // nothing, if it was not started
		life.Close()
		say(errors.New("the process that serves ports and folders ended"))
		time.Sleep(100 * time.Millisecond)
		var err error
		if life, err = h.start(); err != nil {
			say(fmt.Errorf("start it again: %w", err))
		}
	}
}

// Spared says whether pid is not the guest's but the machine's.
func (m *Machine) Spared(pid int) bool { return int64(pid) == m.helper.pid.Load() }
