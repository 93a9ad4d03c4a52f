// Package wire is the encoding of 9P messages, which the server of package
// ninep and the client of package client share.
package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
)

const (
	HeadLen  = 7           // what all messages begin with: size[4] type[1] tag[2]
	ReadLen  = HeadLen + 4 // what precedes the data of an Rread: the head and count[4]
	WriteLen = HeadLen + 16
	QidLen   = 13

	MaxWalk = 16 // names in a Twalk
	NoTag   = math.MaxUint16
	NoFid   = math.MaxUint32
)

const (
	LinuxVersion = "9P2000.L"
	// HutchVersion is what our own client speaks with our own server: 9P2000.L
	// without what is there for the sake of Linux' client.
	HutchVersion = "9P2000.L.hutch"
)

// ErrMalformed is the error of a message whose fields are not what its type says.
var ErrMalformed = errors.New("malformed message")

var le = binary.LittleEndian

// A Cutter cuts the fields off a message. Once a field is not there
// all further ones are zero, and Bad is set.
type Cutter struct {
	B   []byte
	Bad bool
}

// Take returns the next n bytes, which stay part of the message.
func (c *Cutter) Take(n int) []byte {
	if uint(n) > uint(len(c.B)) {
		c.Bad, c.B = true, nil
		return nil
	}
	p := c.B[:n:n]
	c.B = c.B[n:]
	return p
}

// number returns the n bytes of the next number.
func (c *Cutter) number(n int) []byte {
	if p := c.Take(n); p != nil {
		return p
	}
	return make([]byte, 8)
}

func (c *Cutter) U8() uint8   { return c.number(1)[0] }
func (c *Cutter) U16() uint16 { return le.Uint16(c.number(2)) }
func (c *Cutter) U32() uint32 { return le.Uint32(c.number(4)) }
func (c *Cutter) U64() uint64 { return le.Uint64(c.number(8)) }

func (c *Cutter) Str() string { return string(c.Take(int(c.U16()))) }

// Data returns bytes with a count before them; they stay part of the message.
func (c *Cutter) Data() []byte { return c.Take(int(c.U32())) }

func (c *Cutter) Qid() Qid { return Qid{c.U8(), c.U32(), c.U64()} }

// Time returns seconds and nanoseconds; those that no file can have are the
// zero time.
func (c *Cutter) Time() time.Time {
	sec, nsec := c.U64(), c.U64()
	if int64(sec) > 1<<38 || int64(sec) < -1<<38 || nsec >= 1e9 {
		return time.Time{}
	}
	return time.Unix(int64(sec), int64(nsec))
}

// End says whether the message was exactly what was cut off it.
func (c *Cutter) End() error {
	if c.Bad || len(c.B) > 0 {
		return ErrMalformed
	}
	return nil
}

func Put16(b []byte, v uint16) []byte { return le.AppendUint16(b, v) }
func Put32(b []byte, v uint32) []byte { return le.AppendUint32(b, v) }
func Put64(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }

// PutString appends a string with its length; what has no room in that is left out.
func PutString(b []byte, s string) []byte {
	if len(s) > 65535 {
		s = strings.ToValidUTF8(s[:65535], "")
	}
	return append(Put16(b, uint16(len(s))), s...)
}

// PutStrings appends a list of strings, as Twalk has one.
func PutStrings(b []byte, list []string) []byte {
	b = Put16(b, uint16(len(list)))
	for _, s := range list {
		b = PutString(b, s)
	}
	return b
}

// A Qid names a file: its type, version, and number.
type Qid struct {
	Type uint8
	Vers uint32
	Path uint64
}

func PutQid(b []byte, q Qid) []byte {
	return Put64(Put32(append(b, q.Type), q.Vers), q.Path)
}

// PutTime appends seconds and nanoseconds; the zero time is 1970.
func PutTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return Put64(Put64(b, 0), 0)
	}
	return Put64(Put64(b, uint64(t.Unix())), uint64(t.Nanosecond()))
}

// Seal fills in the head of the message b.
func Seal(b []byte, typ uint8, tag uint16) []byte {
	le.PutUint32(b, uint32(len(b)))
	b[4] = typ
	le.PutUint16(b[5:], tag)
	return b
}

// Path returns the names in a path.
func Path(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}
