package trace

import (
	"bytes"
	"strings"

	"hutch/aggd/rawjson"
)

// Overhead is more than Put adds to params.
const Overhead = maxState*2 + 128

// InMeta returns the texts that the _meta object of a request has for a trace
// context, valid or not.
func InMeta(meta []byte) (parent, state string) {
	rawjson.Walk(meta, func(key []byte, start, end int) {
		switch string(key) {
		case Parent:
			parent = rawjson.String(meta[start:end])
		case State:
			state = rawjson.String(meta[start:end])
		}
	})
	return parent, state
}

// Put returns the params of a request with c in their _meta, in place of any other
// that stands there, in whatever case its names are; no params are {}. A baggage
// that is none goes. Every other byte stays. What is not as the protocol has it,
// params or a _meta that are no objects, is left as it is.
func Put(params []byte, c Context) []byte {
	if len(params) == 0 {
		params = []byte("{}")
	}
	if !isObject(params) {
		return params
	}
	meta := rawjson.Get(params, "_meta")
	switch {
	case meta == nil:
		return front(params, "_meta", put([]byte("{}"), c))
	case !isObject(meta):
		return params
	}
	return rawjson.Set(params, put(meta, c), "_meta")
}

// put returns a _meta object with c in it.
func put(meta []byte, c Context) []byte {
	if meta = rawjson.DeleteFunc(meta, isOther); c.State != "" {
		meta = front(meta, State, rawjson.Quote(c.State))
	}
	return front(meta, Parent, rawjson.Quote(c.String()))
}

// isOther says whether a member of a _meta object is, or whether a reader that knows
// no case could take it for, another trace context, or is a baggage that is none.
func isOther(key, value []byte) bool {
	name := string(key)
	switch {
	case strings.EqualFold(name, Parent), strings.EqualFold(name, State):
		return true
	case name == Baggage:
		return !ValidBaggage(rawjson.String(value))
	}
	return strings.EqualFold(name, Baggage)
}

// front returns an object with one more member, its first.
func front(obj []byte, name string, value []byte) []byte {
	at := bytes.IndexByte(obj, '{') + 1
	member := append(append(rawjson.Quote(name), ':'), value...)
	if rest := bytes.TrimLeft(obj[at:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		member = append(member, ',')
	}
	return rawjson.Splice(obj, at, at, member)
}

func isObject(value []byte) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	return len(value) > 0 && value[0] == '{'
}
