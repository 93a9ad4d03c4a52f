// Package frame speaks the framing of MCP between a guest's relay and the
// host. A connection starts with an optional preamble,
//
//	\0CAPSEM_META:<process>\n
//
// and goes on with frames, all numbers big-endian:
//
//	u32 total_len    bytes after this field, 16 to 1,052,672
//	u16 magic        0x4D43
//	u8  version      1 or 2
//	u8  header_len   16
//	u32 stream_id
//	u16 flags
//	u16 name_len     at most 128
//	u32 payload_len
//	name, payload    total_len = 16 + name_len + payload_len
//
// The payload is one JSON-RPC message. A request opens a stream, whose id is
// larger than that of any before it, and its response carries the same id. A
// notification has stream 0 and the flag Notification, and nothing else has.
//
// Version 2 adds two flags. A frame with More ends in the middle of the
// message, which goes on in the stream's next frame; frames of other streams
// may come in between. A stream with FromHost was opened by the host, which
// numbers its streams on its own; the guest's response carries the flag too.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The versions of the framing.
const (
	Version1 = 1
	Version2 = 2
)

// The flags of a frame.
const (
	Notification = 1 << 0 // stream 0: no answer is expected
	More         = 1 << 1 // version 2: the message goes on in the stream's next frame
	FromHost     = 1 << 2 // version 2: the stream was opened by the host
)

// The limits of the framing.
const (
	MaxFrame   = 1<<20 + 4096 // total_len of one frame
	MaxMessage = 64 << 20     // payload of a message of version 2
	MaxName    = 128          // process name

	magic     = 0x4D43
	headerLen = 16            // after total_len
	prefixLen = 4 + headerLen // total_len and header
	chunk     = 256 << 10     // payload of a frame with More
	flagMask1 = Notification  // flags of version 1
	flagMask2 = flagMask1 | More | FromHost
)

// A Frame is one message. A Reader puts the frames of a message of version 2
// together and a Writer takes them apart, so More is never set in it.
type Frame struct {
	Version uint8
	Stream  uint32
	Flags   uint16
	Process string // who sent it, as the guest says
	Payload []byte
}

// Errors after which a connection cannot go on.
var (
	// ErrLength is returned for a length that no frame can have.
	ErrLength = errors.New("frame length out of range")
	// ErrOrder is returned when a request's stream id is not above those before it.
	ErrOrder = errors.New("stream id out of order")
	// ErrStream is returned when stream 0 and the notification flag do not come together.
	ErrStream = errors.New("stream 0 and notification flag disagree")
	// ErrPartial is returned when more messages are begun and not ended than a Reader keeps.
	ErrPartial = errors.New("too many unfinished messages")
)

// ErrTooLarge is returned by a Writer for a message that does not fit: into
// one frame of version 1, or under MaxMessage.
var ErrTooLarge = errors.New("message too large")

// A BadFrame is the error for a frame that was discarded; the connection
// goes on. Stream is the id found in it, 0 for none.
type BadFrame struct {
	Version uint8
	Stream  uint32
	Reason  string
	Full    bool // there was no room for it: later there may be
}

func (e *BadFrame) Error() string {
	return fmt.Sprintf("invalid MCP frame on stream %d: %s", e.Stream, e.Reason)
}

// Fits reports whether a payload can be sent in a frame or frames of version
// to or from process.
func Fits(version uint8, process string, payload int) bool {
	if version == Version1 {
		return headerLen+len(process)+payload <= MaxFrame
	}
	return payload <= MaxMessage
}

// A header is what stands before a frame's name and payload.
type header struct {
	total   uint32
	magic   uint16
	version uint8
	length  uint8
	stream  uint32
	flags   uint16
	name    uint16
	payload uint32
}

func parseHeader(b []byte) header {
	_ = b[prefixLen-1]
	return header{
		total:   binary.BigEndian.Uint32(b),
		magic:   binary.BigEndian.Uint16(b[4:]),
		version: b[6],
		length:  b[7],
		stream:  binary.BigEndian.Uint32(b[8:]),
		flags:   binary.BigEndian.Uint16(b[12:]),
		name:    binary.BigEndian.Uint16(b[14:]),
		payload: binary.BigEndian.Uint32(b[16:]),
	}
}

// check returns what is wrong with a header whose total is in range.
func (h *header) check() string {
	switch {
	case h.magic != magic:
		return "wrong magic"
	case h.version != Version1 && h.version != Version2:
		return "unknown version"
	case h.length != headerLen:
		return "wrong header length"
	case h.version == Version1 && h.flags&^flagMask1 != 0, h.flags&^flagMask2 != 0:
		return "reserved flags set"
	case h.name > MaxName:
		return "process name too long"
	case uint64(h.total) != headerLen+uint64(h.name)+uint64(h.payload):
		return "lengths disagree"
	}
	return ""
}

func appendHeader(b []byte, version uint8, stream uint32, flags uint16, name, payload int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(headerLen+name+payload))
	b = binary.BigEndian.AppendUint16(b, magic)
	b = append(b, version, headerLen)
	b = binary.BigEndian.AppendUint32(b, stream)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(name))
	return binary.BigEndian.AppendUint32(b, uint32(payload))
}
