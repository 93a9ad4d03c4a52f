package line

import (
	"bufio"
	"encoding/binary"
	"errors"
)

// A frame is what goes over the line at a time: a type, the number of the
// session it belongs to, and data. Its bytes are stuffed, so that the byte
// that ends it is nowhere else: what is cut off spoils no frame but its own.
type frame struct {
	kind    byte
	session uint64
	data    []byte // valid until the next frame is read
}

// Kinds of frames.
const (
	call  = 'c' // the guest has begun, and asks for a hello
	hello = 'h' // from the host: a new session, with its clock; from the guest: so be it
	data  = 'd' // of the session's connections
)

const (
	end    = 0x7e
	escape = 0x7d
	flip   = 0x20

	frameHead = 9
	maxData   = 64 << 10
)

// appendFrame appends a frame to b, as it goes over the line.
func appendFrame(b []byte, f frame) []byte {
	var head [frameHead]byte
	head[0] = f.kind
	binary.BigEndian.PutUint64(head[1:], f.session)
	b = stuff(stuff(b, head[:]), f.data)
	return append(b, end)
}

func stuff(b, p []byte) []byte {
	start := 0
	for i, c := range p {
		if c == end || c == escape {
			b = append(append(b, p[start:i]...), escape, c^flip)
			start = i + 1
		}
	}
	return append(b, p[start:]...)
}

// A reader takes frames from the line.
type reader struct {
	r   *bufio.Reader
	buf []byte
}

// next returns the next frame that is one. Whatever else comes is skipped.
func (r *reader) next() (frame, error) {
	for {
		ok, err := r.fill()
		if err != nil {
			return frame{}, err
		}
		if ok && len(r.buf) >= frameHead {
			return frame{r.buf[0], binary.BigEndian.Uint64(r.buf[1:]), r.buf[frameHead:]}, nil
		}
	}
}

// fill reads up to the end of a frame, and says whether that was of a length
// that frames have.
func (r *reader) fill() (bool, error) {
	r.buf = r.buf[:0]
	ok, escaped := true, false
	for {
		part, err := r.r.ReadSlice(end)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false, err
		}
		last := err == nil
		if last {
			part = part[:len(part)-1]
		}
		for _, c := range part {
			switch {
			case c == escape:
				escaped = true
				continue
			case escaped:
				c ^= flip
				escaped = false
			}
			if ok = ok && len(r.buf) < frameHead+maxData; ok {
				r.buf = append(r.buf, c)
			}
		}
		if last {
			return ok, nil
		}
	}
}
