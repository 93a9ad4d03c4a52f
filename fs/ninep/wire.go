package ninep

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// frameHead is the length of what all messages begin with: size[4] type[1] tag[2].
const frameHead = 7

// readHead is what precedes the data of an Rread: the head and count[4].
const readHead = frameHead + 4

var errMalformed = errors.New("malformed message")

var le = binary.LittleEndian

// A cutter cuts the fields off a message. Once a field is not there
// all further ones are zero, and bad is set.
type cutter struct {
	b   []byte
	bad bool
}

func (c *cutter) take(n int) []byte {
	if n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *cutter) u8() uint8 {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (c *cutter) u16() uint16 {
	if p := c.take(2); p != nil {
		return le.Uint16(p)
	}
	return 0
}

func (c *cutter) u32() uint32 {
	if p := c.take(4); p != nil {
		return le.Uint32(p)
	}
	return 0
}

func (c *cutter) u64() uint64 {
	if p := c.take(8); p != nil {
		return le.Uint64(p)
	}
	return 0
}

func (c *cutter) str() string { return string(c.take(int(c.u16()))) }

// data returns bytes with a count before them; they stay part of the message.
func (c *cutter) data() []byte {
	n := c.u32()
	if uint64(n) > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	return c.take(int(n))
}

// time returns seconds and nanoseconds.
func (c *cutter) time() time.Time {
	sec, nsec := c.u64(), c.u64()
	return time.Unix(int64(sec), int64(min(nsec, 999999999)))
}

// end says whether the message was exactly what was cut off it.
func (c *cutter) end() error {
	if c.bad || len(c.b) > 0 {
		return errMalformed
	}
	return nil
}

func put16(b []byte, v uint16) []byte { return le.AppendUint16(b, v) }
func put32(b []byte, v uint32) []byte { return le.AppendUint32(b, v) }
func put64(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }

func putString(b []byte, s string) []byte {
	if len(s) > 65535 {
		s = strings.ToValidUTF8(s[:65535], "")
	}
	return append(put16(b, uint16(len(s))), s...)
}

// A qid names a file: its type, version, and number.
type qid struct {
	typ  uint8
	vers uint32
	path uint64
}

// qidLen is a qid's length on the wire.
const qidLen = 13

func putQid(b []byte, q qid) []byte {
	return put64(put32(append(b, q.typ), q.vers), q.path)
}

// putTime appends seconds and nanoseconds; the zero time is 1970.
func putTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return put64(put64(b, 0), 0)
	}
	return put64(put64(b, uint64(t.Unix())), uint64(t.Nanosecond()))
}

// seal fills in the head of the message b.
func seal(b []byte, typ uint8, tag uint16) []byte {
	le.PutUint32(b, uint32(len(b)))
	b[4] = typ
	le.PutUint16(b[5:], tag)
	return b
}
