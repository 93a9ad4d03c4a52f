// Package trace has the trace context of W3C (Trace Context, level 2): which trace
// something is part of, and what in it has asked for it. It comes from a guest
// as the text of a traceparent, in the _meta of an MCP request, in an HTTP header or
// in a command's environment, and goes on in the same ways. Whatever a guest
// writes there, only what is valid gets any further.
package trace

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
)

// The names that a trace context, and the baggage of who makes it, go by in the
// _meta of a request and in a header, and in an environment.
const (
	Parent    = "traceparent"
	State     = "tracestate"
	Baggage   = "baggage"
	EnvParent = "TRACEPARENT"
	EnvState  = "TRACESTATE"
)

// A Context is a place in a trace. The zero Context is none.
type Context struct {
	Trace  [16]byte
	Span   [8]byte // of what asks; zero: nothing has yet
	Parent [8]byte // of what has asked for that; zero: nobody knows
	Flags  byte
	State  string // what tracers before have added for themselves; "": nothing
}

// The flags that are known. The others are not passed on.
const (
	Sampled = 1 // somebody keeps the trace
	Random  = 2 // the trace id is random
)

// New returns a new trace, in which nothing has a place yet.
func New() Context {
	c := Context{Flags: Sampled | Random}
	rand.Read(c.Trace[:])
	return c
}

// From returns the place that a guest says it is at, or where that is no valid
// traceparent a new trace. A tracestate that is not valid is left out.
func From(parent, state string) Context {
	c, ok := Parse(parent)
	if !ok {
		return New()
	}
	if ValidState(state) {
		c.State = state
	}
	return c
}

// FromEnv returns the place that this program was started at, as its environment
// says; none if it says no valid one.
func FromEnv() Context {
	c, ok := Parse(os.Getenv(EnvParent))
	if state := os.Getenv(EnvState); ok && ValidState(state) {
		c.State = state
	}
	return c
}

// parentSize is the length of a traceparent of version 00.
const parentSize = len("00-") + 32 + len("-") + 16 + len("-") + 2

// Parse reads a traceparent. Of a version that is not known yet it reads what there
// is of version 00, as the specification has it.
func Parse(s string) (c Context, ok bool) {
	if len(s) < parentSize || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return Context{}, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		into []byte
		text string
	}{{version[:], s[:2]}, {c.Trace[:], s[3:35]}, {c.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if !digits(part.into, part.text) {
			return Context{}, false
		}
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(s) > parentSize, len(s) > parentSize && s[parentSize] != '-':
		return Context{}, false
	case c.Trace == [16]byte{}, c.Span == [8]byte{}:
		return Context{}, false
	}
	c.Flags = flags[0] & (Sampled | Random)
	return c, true
}

// ParseID reads a trace id: 32 digits that are not all 0.
func ParseID(s string) (id [16]byte, ok bool) {
	ok = len(s) == 32 && digits(id[:], s) && id != [16]byte{}
	return id, ok
}

// digits decodes hexadecimal digits, which may not be capitals.
func digits(into []byte, s string) bool {
	if strings.Trim(s, "0123456789abcdef") != "" {
		return false
	}
	_, err := hex.Decode(into, []byte(s))
	return err == nil
}

// IsZero says whether c is none.
func (c Context) IsZero() bool { return c.Trace == [16]byte{} }

// ID returns the trace id, as the records have it; "" where there is none.
func (c Context) ID() string {
	if c.IsZero() {
		return ""
	}
	return hex.EncodeToString(c.Trace[:])
}

// String returns c as a traceparent.
func (c Context) String() string {
	b := make([]byte, 0, parentSize)
	b = hex.AppendEncode(append(b, "00-"...), c.Trace[:])
	b = hex.AppendEncode(append(b, '-'), c.Span[:])
	return string(hex.AppendEncode(append(b, '-'), []byte{c.Flags}))
}

// Child returns another place in the same trace: that of what c has asked for.
func (c Context) Child() Context {
	c.Parent = c.Span
	rand.Read(c.Span[:])
	return c
}
