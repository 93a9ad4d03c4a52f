package port

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A watched connection notices that it was dropped with a checkpoint. gVisor
// drops the host's sockets then, and wakes nobody who waits for them by
// edge-triggered epoll, as Go's runtime does: a read would wait for ever. But
// it starts poll(2) again, which sees the end. So a thread sits in poll, and
// when that returns the read is woken to look for itself. What the other side
// sent before its end is read all the same.
type watched struct {
	*net.UnixConn
	woken atomic.Bool // by us, once, with a deadline

	stop   int // an eventfd
	done   chan struct{}
	closed sync.Once
}

func watch(c *net.UnixConn) (net.Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, derr := -1, error(nil)
	if err := raw.Control(func(orig uintptr) { fd, derr = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if derr != nil {
		return nil, derr
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	w := &watched{UnixConn: c, stop: stop, done: make(chan struct{})}
	go w.watch(fd)
	return w, nil
}

func (w *watched) watch(fd int) {
	defer close(w.done)
	defer unix.Close(fd)
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(list, -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || list[1].Revents != 0:
			return
		case list[0].Revents != 0:
			w.woken.Store(true)
			w.SetReadDeadline(time.Unix(1, 0))
			return
		}
	}
}

func (w *watched) Read(p []byte) (int, error) {
	for {
		n, err := w.UnixConn.Read(p)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !w.woken.Swap(false) {
			return n, err
		}
		w.SetReadDeadline(time.Time{})
	}
}

func (w *watched) Close() error {
	w.closed.Do(func() {
		unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-w.done
		unix.Close(w.stop)
	})
	return w.UnixConn.Close()
}
