package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf8"
)

const (
	readBuffer  = 64 << 10
	maxPartials = 256      // messages begun and not ended
	smallPart   = 32 << 10 // parts of a message below this are kept in one piece
)

// A Reader reads the messages of a connection. It is not for concurrent use.
type Reader struct {
	// Ordered makes the Reader insist on stream ids that increase, as those
	// of requests do; the host sets it, the guest does not.
	Ordered bool
	// Account, if set, is what the bytes of messages are held on. Those of a
	// message that Next has returned are the caller's to give back.
	Account *Account

	r        *bufio.Reader
	last     uint32 // stream of the last request begun
	process  string // the last process name, so that it need not be made anew
	partials map[partialKey]*partial
}

// A partialKey tells apart the streams of both sides and the notifications.
type partialKey struct {
	stream uint32
	flags  uint16
}

// A partial is a message of which more frames are to come. If dropped is set
// they are thrown away.
type partial struct {
	parts   [][]byte
	size    int // of parts
	dropped bool
}

func (p *partial) add(b []byte) {
	p.size += len(b)
	if last := len(p.parts) - 1; last >= 0 && len(p.parts[last]) < smallPart {
		p.parts[last] = append(p.parts[last], b...)
		return
	}
	p.parts = append(p.parts, b)
}

// NewReader returns a Reader of the connection r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, readBuffer)}
}

// Preamble reads the preamble, if the connection starts with one, and returns
// the process name in it. It blocks until the first byte arrives.
func (r *Reader) Preamble() (string, error) {
	b, err := r.r.Peek(1)
	if err != nil || b[0] != 0 {
		return "", err
	}
	b, err = r.r.Peek(len(preamble))
	if err != nil || string(b) != preamble {
		return "", nil // a frame's length starts with a zero too; Next judges
	}
	var line []byte
	for len(line) < maxPreamble {
		c, err := r.r.ReadByte()
		if err != nil {
			return "", noEOF(err)
		}
		if c == '\n' {
			return SanitizeName(string(line[len(preamble):])), nil
		}
		line = append(line, c)
	}
	return "", ErrLength
}

// Next returns the next message; its Payload is the caller's. The error is
// io.EOF at the end between frames, a *BadFrame if a frame was discarded and
// Next may be called again, or one after which the connection is of no use.
func (r *Reader) Next() (Frame, error) {
	for {
		f, more, err := r.frame()
		if err != nil {
			return Frame{}, err
		}
		whole := !more && len(r.partials) == 0
		if !whole {
			whole, err = r.join(&f, more)
		}
		if whole {
			r.Account.came(len(f.Payload))
		}
		if whole || err != nil {
			return f, err
		}
	}
}

// frame reads one frame and checks it.
func (r *Reader) frame() (f Frame, more bool, err error) {
	if err := r.length(); err != nil {
		return f, false, err
	}
	b, err := r.r.Peek(prefixLen)
	if err != nil {
		return f, false, noEOF(err)
	}
	h := parseHeader(b)
	r.r.Discard(prefixLen)
	if reason := h.check(); reason != "" {
		return f, false, r.discard(h, int(h.total)-headerLen, reason)
	}
	if (h.stream == 0) != (h.flags&Notification != 0) {
		return f, false, ErrStream
	}
	name, err := r.r.Peek(int(h.name))
	if err != nil {
		return f, false, noEOF(err)
	}
	if !utf8.Valid(name) {
		return f, false, r.discard(h, int(h.name)+int(h.payload), "process name is not UTF-8")
	}
	if string(name) != r.process {
		r.process = string(name)
	}
	r.r.Discard(len(name))
	f = Frame{Version: h.version, Stream: h.stream, Flags: h.flags &^ More, Process: r.process}
	if err := r.order(&f); err != nil {
		return f, false, err
	}
	more = h.flags&More != 0
	if p := r.partials[key(&f)]; p != nil && p.dropped {
		err = r.skip(int(h.payload))
	} else if err = r.room(h); err == nil {
		f.Payload = make([]byte, h.payload)
		_, err = io.ReadFull(r.r, f.Payload)
	}
	return f, more, noEOF(err)
}

// room waits until there is room for the payload of a frame. A message for
// which there will be none is thrown away.
func (r *Reader) room(h header) error {
	reason := "message too large"
	k := partialKey{h.stream, h.flags & (Notification | FromHost)}
	p, n := r.partials[k], int(h.payload)
	size := n
	if p != nil {
		size += p.size
	}
	full := false
	if size <= r.Account.most() {
		err := r.Account.take(n)
		if err != ErrFull {
			return err
		}
		reason, full = err.Error(), true
	}
	switch more := h.flags&More != 0; {
	case p == nil && more:
		var err error
		if p, err = r.begin(k); err != nil {
			return err
		}
		p.dropped = true
	case p != nil:
		r.drop(p)
		if !more {
			delete(r.partials, k)
		}
	}
	if err := r.skip(n); err != nil {
		return err
	}
	return &BadFrame{Version: h.version, Stream: h.stream, Reason: reason, Full: full}
}

func (r *Reader) skip(n int) error {
	_, err := r.r.Discard(n)
	return err
}

// begin notes that a message has begun.
func (r *Reader) begin(k partialKey) (*partial, error) {
	if len(r.partials) >= maxPartials {
		return nil, ErrPartial
	}
	if r.partials == nil {
		r.partials = make(map[partialKey]*partial)
	}
	p := &partial{}
	r.partials[k] = p
	return p, nil
}

// order checks that a stream which is no partial one is a new one.
func (r *Reader) order(f *Frame) error {
	if !r.Ordered || f.Flags&(Notification|FromHost) != 0 || r.partials[key(f)] != nil {
		return nil
	}
	if f.Stream <= r.last {
		return ErrOrder
	}
	r.last = f.Stream
	return nil
}

// join adds f to what came of its message and reports whether it is whole.
func (r *Reader) join(f *Frame, more bool) (whole bool, err error) {
	k := key(f)
	p := r.partials[k]
	if p == nil {
		if !more {
			return true, nil
		}
		if p, err = r.begin(k); err != nil {
			return false, err
		}
	}
	if !more {
		delete(r.partials, k)
	}
	if p.dropped {
		return false, nil
	}
	if p.add(f.Payload); more {
		return false, nil
	}
	f.Payload = bytes.Join(p.parts, nil)
	return true, nil
}

// drop throws away what came of a message.
func (r *Reader) drop(p *partial) {
	r.Account.drop(p.size)
	*p = partial{dropped: true}
}

func key(f *Frame) partialKey {
	return partialKey{f.Stream, f.Flags & (Notification | FromHost)}
}

// discard throws away the n bytes left of a bad frame, and the message that
// it is part of.
func (r *Reader) discard(h header, n int, reason string) error {
	if p := r.partials[partialKey{h.stream, h.flags & (Notification | FromHost)}]; p != nil {
		r.drop(p)
	}
	if _, err := r.r.Discard(n); err != nil {
		return noEOF(err)
	}
	v := h.version
	if v != Version2 {
		v = Version1
	}
	return &BadFrame{Version: v, Stream: h.stream, Reason: reason}
}

// length looks at the length of the next frame. One out of range is found
// before any more of the frame came: there may be no more.
func (r *Reader) length() error {
	b, err := r.r.Peek(4)
	switch {
	case err != nil && len(b) == 0:
		return err
	case err != nil:
		return noEOF(err)
	}
	if total := binary.BigEndian.Uint32(b); total < headerLen || total > MaxFrame {
		return ErrLength
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
