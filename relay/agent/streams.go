package agent

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// streams are the files of a command that starts.
type streams struct {
	stdin  *os.File   // the child's, of a pipe
	child  []*os.File // the child's other ends
	ours   []*os.File // what to read output from: stdout and stderr, or the terminal
	master *os.File   // the terminal
}

// streams makes two pipes for output, or a terminal for everything.
func (c *command) streams(set *settings) (_ *streams, err error) {
	s := new(streams)
	defer func() {
		if err != nil {
			s.undo(c.stdin)
		}
	}()
	if set.tty != nil {
		master, slave, err := pty.Open()
		if err != nil {
			return nil, err
		}
		s.master, s.child, s.ours = master, []*os.File{slave}, []*os.File{master}
		return s, errors.Join(setSize(master, set.tty), unblock(master))
	}
	if s.stdin, err = c.stdin.forChild(); err != nil {
		return nil, err
	}
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		s.ours, s.child = append(s.ours, r), append(s.child, w)
	}
	return s, nil
}

func setSize(tty *os.File, to *size) error {
	return control(tty, func(fd uintptr) error {
		return unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: to.rows, Col: to.cols})
	})
}

// unblock has the runtime wait for a terminal, which can be told to stop, and
// not the kernel. pty.Open leaves it blocking.
func unblock(tty *os.File) error {
	return control(tty, func(fd uintptr) error { return syscall.SetNonblock(int(fd), true) })
}

// control does f with the descriptor of a file, and leaves its mode alone.
func control(file *os.File, f func(fd uintptr) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = f(fd) })
	return errors.Join(cerr, err)
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
	s.stdin.Close()
	closeAll(s.child)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// undo closes everything but stdin, which stays as it was.
func (s *streams) undo(in *input) {
	closeAll(s.ours)
	closeAll(s.child)
	if s.stdin != nil {
		in.takeBack(s.stdin)
	}
}

// lastOutput is how much is taken of a terminal when its command has ended.
// It is more than any kernel keeps of one, and bounds what others write to it.
const lastOutput = 256 << 10

// ebb ends the wait of fillTerminal for more: the command has ended.
func ebb(master *os.File) { master.SetReadDeadline(time.Unix(1, 0)) }

// fill copies what is written to a pipe to a spool, until everybody who has
// the pipe has closed it. It holds no buffer but the spool's own.
func fill(to *Spool, f *os.File) {
	defer f.Close()
	defer to.Finish()
	for err := error(nil); err == nil; {
		_, err = fillSome(to, f.Read)
	}
}

// fillTerminal copies what is printed on a terminal to a spool. When the
// command has ended it takes what is there and hangs up, as sshd does: the
// jobs that a shell leaves, stopped ones too, would keep the terminal open.
//
// A terminal reads as ended, with EIO, while nobody has it open. A command
// may close it before it exits, and closing our side then would kill it with
// SIGHUP.
func fillTerminal(to *Spool, f *os.File, ended <-chan struct{}) {
	defer f.Close()
	defer to.Finish()
	var err error
	for err == nil {
		_, err = fillSome(to, f.Read)
	}
	if !errors.Is(err, syscall.EIO) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	<-ended
	left := func(p []byte) (n int, err error) {
		err = control(f, func(fd uintptr) (err error) {
			n, err = unix.Read(int(fd), p)
			return err
		})
		return n, err
	}
	err = nil
	for taken, n := 0, 0; err == nil && taken < lastOutput; taken += n {
		n, err = fillSome(to, left)
	}
}

// fillSome reads once.
func fillSome(to *Spool, read func(p []byte) (int, error)) (int, error) {
	p := to.space()
	if p == nil {
		return 0, io.EOF
	}
	n, err := read(p)
	if n > 0 {
		to.commit(n)
	}
	if n <= 0 && err == nil {
		err = io.EOF
	}
	return n, err
}
