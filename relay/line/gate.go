package line

import (
	"encoding/binary"
	"io"
	"sync"
)

// What goes over a session is messages of yamux: a head, and a body if the
// message is data.
const (
	muxHead = 12 // bytes: version, type, flags (2), stream (4), length (4)

	muxData   = 0
	muxWindow = 1
	muxPing   = 2

	muxReset = 8 // a flag
)

// A gate stands between a guest, which may send what it likes, and the host's
// yamux, which trusts it: that keeps a goroutine for each ping whose answer
// the guest does not read, and each stream that the host has closed, with what
// came for it, until the guest has closed it, too. The gate takes the pings
// away, which no guest of ours sends, and has yamux forget what is closed.
type gate struct {
	to   io.Writer
	head []byte // of a message, as far as it came
	body uint32 // bytes that are still to come of a message
	out  []byte

	mu     sync.Mutex // guards closed
	closed []uint32   // streams of which yamux was not told yet
}

// pass passes on what the guest sent.
func (g *gate) pass(b []byte) error {
	g.out = g.out[:0]
	for len(b) > 0 {
		if g.body > 0 {
			n := int(min(uint32(len(b)), g.body))
			g.out = append(g.out, b[:n]...)
			g.body -= uint32(n)
			b = b[n:]
			continue
		}
		n := min(len(b), muxHead-len(g.head))
		g.head = append(g.head, b[:n]...)
		b = b[n:]
		if len(g.head) == muxHead {
			g.begin()
		}
	}
	_, err := g.to.Write(g.out)
	return err
}

// begin begins a message, whose head is there. Before it yamux is told, as if
// by the guest, that what the host has closed is reset.
func (g *gate) begin() {
	g.mu.Lock()
	for _, stream := range g.closed {
		g.out = append(g.out, 0, muxWindow, 0, muxReset)
		g.out = binary.BigEndian.AppendUint32(g.out, stream)
		g.out = binary.BigEndian.AppendUint32(g.out, 0)
	}
	g.closed = nil
	g.mu.Unlock()
	switch g.head[1] {
	case muxPing:
	case muxData:
		g.body = binary.BigEndian.Uint32(g.head[8:])
		fallthrough
	default:
		g.out = append(g.out, g.head...)
	}
	g.head = g.head[:0]
}

// forget has yamux forget a stream that the host has closed, when the guest
// says anything next.
func (g *gate) forget(stream uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = append(g.closed, stream)
}
