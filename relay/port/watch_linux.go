package port

import (
	"errors"
	"net"
	"os"
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
}

func watch(c *net.UnixConn) (net.Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &watched{UnixConn: c}
	go raw.Control(w.watch)
	return w, nil
}

// watch waits for the end of what can be read.
func (w *watched) watch(fd uintptr) {
	list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	err := error(unix.EINTR)
	for err == unix.EINTR {
		_, err = unix.Poll(list, -1)
	}
	if err == nil {
		w.woken.Store(true)
		w.SetReadDeadline(time.Unix(1, 0))
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

// Close ends the watch first: it has the descriptor.
func (w *watched) Close() error {
	w.CloseRead()
	return w.UnixConn.Close()
}
