package agent

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/creack/pty"
)

// streams are the files of a command that starts.
type streams struct {
	stdin  *os.File   // the child's, of a pipe
	child  []*os.File // the child's other ends
	ours   []*os.File // what to read output from: stdout and stderr, or the terminal
	master *os.File   // the terminal
}

// streams makes two pipes for output, or a terminal for everything.
func (c *command) streams(set *settings) (*streams, error) {
	s := new(streams)
	err := s.open(c, set)
	if err != nil {
		s.undo(c.stdin)
		return nil, err
	}
	return s, nil
}

func (s *streams) open(c *command, set *settings) error {
	if set.tty != nil {
		master, slave, err := pty.Open()
		if err != nil {
			return err
		}
		s.master, s.child, s.ours = master, []*os.File{slave}, []*os.File{master}
		return setSize(master, set.tty)
	}
	var err error
	if s.stdin, err = c.stdin.forChild(); err != nil {
		return err
	}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return err
		}
		s.ours, s.child = append(s.ours, r), append(s.child, w)
	}
	return nil
}

func setSize(tty *os.File, to *size) error {
	return pty.Setsize(tty, &pty.Winsize{Rows: to.rows, Cols: to.cols})
}

// fds returns what the child has as 0, 1 and 2. Fd makes them blocking, as
// programs expect it.
func (s *streams) fds() []uintptr {
	if s.master != nil {
		tty := s.child[0].Fd()
		return []uintptr{tty, tty, tty}
	}
	return []uintptr{s.stdin.Fd(), s.child[0].Fd(), s.child[1].Fd()}
}

// closeChild closes the child's ends, which it has by now.
func (s *streams) closeChild() {
	if s.stdin != nil {
		s.stdin.Close()
	}
	for _, f := range s.child {
		f.Close()
	}
}

func (s *streams) closeOurs() {
	for _, f := range s.ours {
		f.Close()
	}
}

// undo closes everything but stdin, which stays as it was.
func (s *streams) undo(in *input) {
	s.closeOurs()
	for _, f := range s.child {
		f.Close()
	}
	if s.stdin != nil {
		in.takeBack(s.stdin)
	}
}

// fill copies a command's output to a window until its end. It holds no
// buffer but the window's own.
//
// A terminal reads as ended, with EIO, while nobody has it open. A command
// may close it before it exits, and closing our side then would kill it with
// SIGHUP: only what follows its exit, if ended is not nil, is the end.
func fill(w *window, f *os.File, ended <-chan struct{}) {
	defer f.Close()
	defer w.finish()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for {
		p := w.space()
		if p == nil {
			return
		}
		n, err := readSome(raw, p)
		if n > 0 {
			w.commit(n)
		}
		if errors.Is(err, syscall.EIO) && ended != nil {
			<-ended
			ended = nil
			continue
		}
		if err != nil {
			return
		}
	}
}

// readSome waits for something to read and reads it.
func readSome(raw syscall.RawConn, p []byte) (n int, err error) {
	werr := raw.Read(func(fd uintptr) bool {
		for {
			n, err = syscall.Read(int(fd), p)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
	switch {
	case werr != nil:
		return 0, werr
	case n > 0:
		return n, nil
	case err == nil:
		return 0, io.EOF
	}
	return 0, err
}
