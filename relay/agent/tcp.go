package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hutch/fs"
)

const (
	maxTCP      = 512              // connections that the host may have: twice its own limit, as it goes on before they are gone
	tcpBuffer   = 128 << 10        // bytes that came and the host has not read; then the other side waits
	connectTime = 10 * time.Second // that the other side has to answer
)

// boundTCP gives all connections of the guest, which lead nowhere but to the guest
// itself, buffers of a fixed size. gVisor lets them grow to 4 MiB each way: 101
// that nobody read took 512 MiB. And while it changes their sizes a connection
// may stand still for 200 ms.
func boundTCP() {
	for name, sizes := range map[string]string{"tcp_wmem": "4096 131072 131072", "tcp_rmem": "4096 262144 262144"} {
		os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(sizes), 0) // a kernel may have none
	}
}

// The states of a connection, as its status says them.
const (
	tcpNew        = "new"
	tcpConnecting = "connecting"
	tcpConnected  = "connected"
	tcpClosed     = "closed"
)

// A tcp is a connection to a port, which the host has made. It is the session's,
// and ends with it: what the host had read of it then nobody knows.
type tcp struct {
	name   string
	num    uint64
	last   fs.LastErr
	ctx    context.Context // ends with it
	cancel context.CancelFunc
	in     *Spool        // what came
	turn   chan struct{} // holds a token: whoever has it writes
	pump   sync.WaitGroup
	sent   atomic.Int64

	mu      sync.Mutex // guards what follows
	state   string
	conn    *net.TCPConn
	inEnded bool  // nothing more comes
	why     error // for another reason than the other side's end
	ended   bool  // nothing more is sent
}

// connections are those of a session to ports of the guest.
type connections struct {
	mu     sync.Mutex // guards what follows
	byName map[string]*tcp
	closed bool
}

func newTCP(name string, num uint64) *tcp {
	t := &tcp{name: name, num: num, in: NewSpool(tcpBuffer), turn: make(chan struct{}, 1), state: tcpNew}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// connect returns when there is a connection, or none can be had.
func (t *tcp) connect(ctx context.Context, places []netip.AddrPort) error {
	t.mu.Lock()
	if t.state != tcpNew {
		defer t.mu.Unlock()
		return fmt.Errorf("%w: connection %s is %s: make another", fs.ErrBusy, t.name, t.state)
	}
	t.state = tcpConnecting
	t.mu.Unlock()
	conn, err := t.dial(ctx, places)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && t.state == tcpConnecting:
		t.state = tcpNew
		return err
	case err == nil && t.state != tcpConnecting:
		conn.Close()
		fallthrough
	case err != nil:
		return fmt.Errorf("%w: connection %s was hung up", fs.ErrInterrupted, t.name)
	}
	t.state, t.conn = tcpConnected, conn
	t.pump.Go(func() { t.fill(conn) })
	return nil
}

// dial tries the places one after the other. The error is that of the first.
func (t *tcp) dial(ctx context.Context, places []netip.AddrPort) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	var first error
	for _, p := range places {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.String())
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if first == nil {
			first = refusal(p, err)
		}
	}
	return nil, first
}

// refusal says why there is no connection to p.
func refusal(p netip.AddrPort, err error) error {
	place := fmt.Sprintf("%s!%d", p.Addr(), p.Port())
	var number syscall.Errno
	var late net.Error
	switch {
	case errors.As(err, &number):
		return fmt.Errorf("%w: %s", number, place)
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("%w: %s does not answer", fs.ErrTimedOut, place)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %s", fs.ErrInterrupted, place)
	}
	return fmt.Errorf("%w: %s: %w", fs.ErrIO, place, err)
}

// fill takes what comes until it ends. While the host does not read it, the
// buffer is full and the other side waits.
func (t *tcp) fill(conn *net.TCPConn) {
	var err error
	for err == nil {
		_, err = fillSome(t.in, conn.Read)
	}
	t.mu.Lock()
	t.inEnded = true
	if !errors.Is(err, io.EOF) && t.state == tcpConnected {
		t.why = lostTCP(err)
		t.close()
	} else if t.ended {
		t.close()
	}
	t.mu.Unlock()
	t.in.Finish()
}

// lostTCP is the error of what needs a connection that has ended with err.
func lostTCP(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return fmt.Errorf("%w: the other side is gone", number)
	}
	return fmt.Errorf("%w: the other side is gone: %w", fs.ErrIO, err)
}

// close gives the connection up. It is called with mu held.
func (t *tcp) close() {
	t.state, t.ended = tcpClosed, true
	t.cancel()
	if t.conn != nil {
		t.conn.Close()
	}
}

// hangUp ends the connection both ways. What has come can be read yet.
func (t *tcp) hangUp() {
	t.mu.Lock()
	t.close()
	had := t.conn != nil
	t.mu.Unlock()
	t.in.Abandon()
	if !had {
		t.in.Finish()
	}
}

// drop is hangUp that waits for what serves the connection.
func (t *tcp) drop() {
	t.hangUp()
	t.pump.Wait()
}

// eof ends what is sent: the other side reads what was written, then its end.
func (t *tcp) eof() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.ended = true
	err := t.conn.CloseWrite()
	if t.inEnded {
		t.close()
	}
	return err
}

// usable says why nothing can be sent. It is called with mu held.
func (t *tcp) usable() error {
	switch {
	case t.why != nil:
		return t.why
	case t.state == tcpClosed:
		return fmt.Errorf("%w: connection %s is closed", fs.ErrPipe, t.name)
	case t.conn == nil:
		return fmt.Errorf("%w: connection %s is not connected: write connect ADDR!PORT to its ctl", fs.ErrBusy, t.name)
	case t.ended:
		return fmt.Errorf("%w: what connection %s sends was ended by eof", fs.ErrPipe, t.name)
	}
	return nil
}

// write sends p, or as much of it as the other side takes before ctx is done.
func (t *tcp) write(ctx context.Context, p []byte) (int, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	t.mu.Lock()
	conn, err := t.conn, t.usable()
	t.mu.Unlock()
	if err != nil {
		return 0, err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		conn.SetWriteDeadline(time.Unix(1, 0))
		close(late)
	})
	n, err := conn.Write(p)
	if !stop() {
		<-late
		conn.SetWriteDeadline(time.Time{})
	}
	t.sent.Add(int64(n))
	switch {
	case err == nil || n > 0:
		return n, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, ctx.Err()
	case errors.Is(err, net.ErrClosed):
		return 0, fmt.Errorf("%w: connection %s is closed", fs.ErrPipe, t.name)
	}
	return 0, lostTCP(err)
}

// status returns the state, then key value lines.
func (t *tcp) status() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString(t.state + "\n")
	if t.conn != nil {
		fmt.Fprintf(&b, "local %s\nremote %s\n", showAddress(t.conn.LocalAddr()), showAddress(t.conn.RemoteAddr()))
	}
	fmt.Fprintf(&b, "sent %d%s\nreceived %d%s\n", t.sent.Load(), mark(t.ended), t.in.Size(), mark(t.inEnded))
	if t.why != nil {
		fmt.Fprintf(&b, "error %s\n", fs.Text(t.why))
	}
	return b.String()
}

func mark(ended bool) string {
	if ended {
		return " ended"
	}
	return ""
}

// A tcpHandle is an open data file. Reads are by offset, for a host that has
// to ask again.
type tcpHandle struct {
	*spoolReader
	t *tcp
}

func (h *tcpHandle) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	n, err := h.spoolReader.ReadAt(ctx, p, off)
	if n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	return 0, h.t.why
}

func (h *tcpHandle) WriteAt(ctx context.Context, p []byte, _ int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return h.t.write(ctx, p)
}
