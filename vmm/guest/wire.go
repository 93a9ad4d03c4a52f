package guest

import (
	"encoding/binary"
	"errors"
	"time"
)

// The messages of 9P2000.L that the host sends.
const (
	rlerror   = 7
	tstatfs   = 8
	tlopen    = 12
	tlcreate  = 14
	tsymlink  = 16
	treadlink = 22
	tgetattr  = 24
	tsetattr  = 26
	treaddir  = 40
	treadplus = 42 // Treaddirplus, our own
	tfsync    = 50
	tlink     = 70
	tmkdir    = 72
	trenameat = 74
	tunlinkat = 76
	tversion  = 100
	tattach   = 104
	tflush    = 108
	twalk     = 110
	tread     = 116
	twrite    = 118
	tclunk    = 120
)

const (
	dialect  = "9P2000.L"
	headLen  = 7      // size[4] type[1] tag[2]
	writeLen = 7 + 16 // and fid[4] offset[8] count[4]
	readLen  = 7 + 4  // and count[4]
	maxWalk  = 16     // names in a Twalk
	removeIt = 0x200  // Tunlinkat of a directory
	allAttrs = 0x7ff  // Tgetattr for all that stat tells
	noTag    = 1<<16 - 1
	noFid    = 1<<32 - 1
)

var errMalformed = errors.New("malformed message")

var le = binary.LittleEndian

func put16(b []byte, v uint16) []byte { return le.AppendUint16(b, v) }
func put32(b []byte, v uint32) []byte { return le.AppendUint32(b, v) }
func put64(b []byte, v uint64) []byte { return le.AppendUint64(b, v) }

func putString(b []byte, s string) []byte {
	return append(put16(b, uint16(len(s))), s...)
}

func putTime(b []byte, t time.Time) []byte {
	return put64(put64(b, uint64(t.Unix())), uint64(t.Nanosecond()))
}

// A reply is the body of an answer, from which fields are cut. Once one is
// not there all further ones are zero, and bad is set.
type reply struct {
	b   []byte
	bad bool
}

func (r *reply) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return make([]byte, min(n, 8))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reply) u8() uint8   { return r.take(1)[0] }
func (r *reply) u16() uint16 { return le.Uint16(r.take(2)) }
func (r *reply) u32() uint32 { return le.Uint32(r.take(4)) }
func (r *reply) u64() uint64 { return le.Uint64(r.take(8)) }

func (r *reply) str() string {
	n := int(r.u16())
	if n > len(r.b) {
		r.b, r.bad = nil, true
		return ""
	}
	return string(r.take(n))
}

// qid returns a qid's path; a guest's versions and types are not used.
func (r *reply) qid() uint64 {
	r.take(5)
	return r.u64()
}

// time returns a time; one that no file can have is the zero time.
func (r *reply) time() time.Time {
	sec, nsec := r.u64(), r.u64()
	if sec > 1<<38 || nsec >= 1e9 {
		return time.Time{}
	}
	return time.Unix(int64(sec), int64(nsec))
}

// end says whether all there was, and no more, has been cut off.
func (r *reply) end() error {
	if r.bad || len(r.b) > 0 {
		return errMalformed
	}
	return nil
}
