// Package line carries connections over a virtio-serial port, which is how a
// virtual machine without vsock reaches its host. It is used at both ends:
// the guest dials, the host accepts.
//
// Such a port has no beginning and no end that both sides see: bytes of what
// was before are still in it when hutchd was started anew, or when a machine
// goes on from what was saved of it. So the host begins a session with a
// number of its own, and what has another number means nothing. A session
// that ends takes all its connections with it, and the guest dials again.
//
// In a session the connections are those of github.com/hashicorp/yamux, the
// first four bytes of each being the port that is dialled.
package line

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// A line is one end of the port.
type line struct {
	rw   io.ReadWriteCloser
	in   reader
	work sync.WaitGroup // the writer

	mu     sync.Mutex // guards what follows
	change *sync.Cond
	out    []byte // to be written
	err    error  // why nothing more can be
}

const maxOut = 512 << 10 // bytes that wait to be written

func newLine(rw io.ReadWriteCloser) *line {
	l := &line{rw: rw, in: reader{r: bufio.NewReaderSize(rw, 64<<10)}}
	l.change = sync.NewCond(&l.mu)
	l.out = append(l.out, end) // what was cut off before, ends here
	l.work.Go(l.write)
	return l
}

// write writes what is there to be written, much at a time: each write costs
// a machine without KVM dearly.
func (l *line) write() {
	var spare []byte
	for {
		l.mu.Lock()
		for len(l.out) == 0 && l.err == nil {
			l.change.Wait()
		}
		if l.err != nil {
			l.mu.Unlock()
			return
		}
		b := l.out
		l.out = spare[:0]
		l.change.Broadcast()
		l.mu.Unlock()
		if _, err := l.rw.Write(b); err != nil {
			l.close(err)
			return
		}
		spare = b
	}
}

// send queues a frame. With more to come at once, it is not written before
// that.
func (l *line) send(f frame, more bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.out) > maxOut && l.err == nil {
		l.change.Wait()
	}
	if l.err != nil {
		return l.err
	}
	l.out = appendFrame(l.out, f)
	if !more {
		l.change.Broadcast()
	}
	return nil
}

// close ends the line for a reason. It can be called more than once.
func (l *line) close(err error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = err
	}
	l.change.Broadcast()
	l.mu.Unlock()
	l.rw.Close()
}

// A pipe is what a session's connections go through.
type pipe struct {
	l       *line
	session uint64
	*io.PipeReader
	feed *io.PipeWriter
	body uint32 // bytes that are still to come of a message whose head was written
}

func newPipe(l *line, session uint64) *pipe {
	p := &pipe{l: l, session: session}
	p.PipeReader, p.feed = io.Pipe()
	return p
}

// Write sends b. The head of a message that has a body goes with it. It is
// called with a head or a body, one call at a time.
func (p *pipe) Write(b []byte) (int, error) {
	switch {
	case p.body > 0:
		p.body -= min(p.body, uint32(len(b)))
	case len(b) == muxHead && b[1] == muxData:
		p.body = binary.BigEndian.Uint32(b[8:])
	}
	more := p.body > 0
	for done := 0; done < len(b); {
		part := b[done:min(len(b), done+maxData)]
		if err := p.l.send(frame{data, p.session, part}, more); err != nil {
			return done, err
		}
		done += len(part)
	}
	return len(b), nil
}

// Close makes all that is under way fail.
func (p *pipe) Close() error {
	p.feed.CloseWithError(net.ErrClosed)
	return p.PipeReader.Close()
}

// muxConfig has no time limits: a machine may stand still for long, and must
// not lose anything by that. But for one: a connection that only one side has
// closed, as a client does that has asked its last and waits, ends in an hour;
// at the host, where a gate sees to it, when the host has done with it.
func muxConfig() *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: 256, MaxStreamWindowSize: 256 << 10, KeepAliveInterval: time.Hour, // which is not used
		ConnectionWriteTimeout: math.MaxInt64, StreamCloseTimeout: time.Hour,
		LogOutput: io.Discard,
	}
}

// A conn is one connection.
type conn struct {
	*yamux.Stream
	closed func(stream uint32) // is told that nobody will use it any more
}

// Close ends the connection both ways; a read under way fails.
func (c conn) Close() error {
	err := c.Stream.Close()
	c.SetReadDeadline(time.Unix(1, 0))
	c.closed(c.StreamID())
	return err
}

// CloseWrite ends this side of the connection.
func (c conn) CloseWrite() error { return c.Stream.Close() }
