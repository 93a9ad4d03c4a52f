package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// sendTime is for a line to be taken by the other side of a Socket.
const sendTime = 5 * time.Second

// A Socket carries lines of JSON, and descriptors with them, from hutchd to a
// child of its own. Lines may be sent from any number of goroutines; one reads.
type Socket struct {
	conn *net.UnixConn
	max  int    // bytes of a line
	read []byte // what has been read beyond the last line
	fds  []int  // that came with lines and were not taken yet

	sendMu sync.Mutex // so that no two lines mix
}

// NewSocket returns a Socket over c, which takes lines of at most limit bytes.
func NewSocket(c *net.UnixConn, limit int) *Socket { return &Socket{conn: c, max: limit} }

// InheritSocket returns the Socket that a parent gave this process as a descriptor.
func InheritSocket(fd uintptr, limit int) (*Socket, error) {
	f := os.NewFile(fd, "socket")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, syscall.EBADF)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("descriptor %d is not a unix socket: hutchd gives one", fd)
	}
	return NewSocket(u, limit), nil
}

// Send writes a line, with descriptors. After an error the Socket is closed: half
// a line may be out.
func (s *Socket) Send(v any, fds ...int) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.conn.SetWriteDeadline(time.Now().Add(sendTime))
	n := 0
	if len(fds) > 0 {
		n, _, err = s.conn.WriteMsgUnix(line, syscall.UnixRights(fds...), nil)
	}
	if err == nil && n < len(line) {
		_, err = s.conn.Write(line[n:])
	}
	if err != nil {
		s.conn.Close()
	}
	return err
}

// Read reads the next line into v. It returns io.EOF when there will be none.
func (s *Socket) Read(v any) error {
	line, err := s.line()
	if errors.Is(err, net.ErrClosed) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("a line that is not one of hutchd's: %w", err)
	}
	return nil
}

func (s *Socket) line() ([]byte, error) {
	p, oob := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4*64))
	for {
		if line, rest, ok := bytes.Cut(s.read, []byte("\n")); ok {
			s.read = rest
			return line, nil
		}
		if len(s.read) > s.max {
			return nil, fmt.Errorf("a line of more than %d bytes", s.max)
		}
		n, m, _, _, err := s.conn.ReadMsgUnix(p, oob)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.EOF
		}
		s.read = append(s.read, p[:n]...)
		if err := s.receive(oob[:m]); err != nil {
			return nil, err
		}
	}
}

func (s *Socket) receive(oob []byte) error {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return err
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return err
		}
		s.fds = append(s.fds, fds...)
	}
	return nil
}

// Take returns the next descriptor of those that came with lines. The reader of
// a line calls it, before it reads the next.
func (s *Socket) Take() (*os.File, error) {
	if len(s.fds) == 0 {
		return nil, errors.New("a line tells of a descriptor, and none came")
	}
	fd := s.fds[0]
	s.fds = s.fds[1:]
	// The sender's File.Fd has set it to block: a Queue would wait for its
	// reader, and a Read would not end with Close.
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("descriptor: %w", err)
	}
	return os.NewFile(uintptr(fd), "descriptor"), nil
}

// Close ends the connection.
func (s *Socket) Close() error { return s.conn.Close() }

// Drop closes the connection and the descriptors that nobody took.
func (s *Socket) Drop() {
	s.conn.Close()
	for _, fd := range s.fds {
		syscall.Close(fd)
	}
	s.fds = nil
}
