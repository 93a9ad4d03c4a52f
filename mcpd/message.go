package mcpd

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"hutch/aggd/rawjson"
)

// A message is the envelope of a JSON-RPC message. All its parts are slices
// of the text it came in; what is nil was not there.
type message struct {
	id     []byte
	method string
	params params
	result []byte
	err    []byte
}

// params are a request's params, and where in them the members stand that
// hutch reads or replaces.
type params struct {
	raw     []byte
	members [len(paramNames)]span
}

type span struct{ start, end int }

// The members of params, and of a completion's ref, that hutch looks at.
const (
	pName = iota
	pURI
	pMeta
	pRef
	pLevel
	pCursor
	pArguments
	pRequestID
	pReason
	pProtocolVersion
	pCapabilities
	pProgressToken
	pType
)

var paramNames = [...]string{
	pName: "name", pURI: "uri", pMeta: "_meta", pRef: "ref", pLevel: "level", pCursor: "cursor",
	pArguments: "arguments", pRequestID: "requestId", pReason: "reason",
	pProtocolVersion: "protocolVersion", pCapabilities: "capabilities", pProgressToken: "progressToken",
	pType: "type",
}

var envelopeNames = [...]string{"jsonrpc", "id", "method", "params", "result", "error"}

// errAmbiguous is for objects which two readers may understand differently.
var errAmbiguous = errors.New("ambiguous")

// parse reads the envelope of a message. On an error the message has the id,
// if one could be made out.
func parse(data []byte) (message, *Error) {
	var m message
	if !utf8.Valid(data) {
		return m, &Error{Code: codeParse, Message: "parse error: " + rawjson.ErrUTF8.Error()}
	}
	var spans [len(envelopeNames)]span
	err := members(data, envelopeNames[:], spans[:])
	at := func(i int) []byte {
		if spans[i].end == 0 {
			return nil
		}
		return data[spans[i].start:spans[i].end]
	}
	switch {
	case errors.Is(err, rawjson.ErrType):
		return m, notAnObject(data)
	case errors.Is(err, errAmbiguous):
		return m, invalid("%s", err)
	case err != nil:
		return m, &Error{Code: codeParse, Message: "parse error: " + err.Error()}
	}
	if id := at(1); isID(id) {
		m.id = id
	} else if id != nil {
		return m, invalid("invalid request: the id must be a string or a number")
	}
	if string(at(0)) != `"2.0"` {
		return m, invalid("invalid request: jsonrpc must be \"2.0\"")
	}
	m.result, m.err = at(4), at(5)
	if method := at(2); method != nil {
		if m.method = rawjson.String(method); m.method == "" {
			return m, invalid("invalid request: the method must be a string")
		}
	}
	if m.method == "" && m.result == nil && m.err == nil {
		return m, invalid("invalid request: the method is missing")
	}
	var e *Error
	m.params, e = scanParams(at(3))
	return m, e
}

func notAnObject(data []byte) *Error {
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		return invalid("invalid request: batches are not supported")
	}
	return invalid("invalid request: not an object")
}

func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}

// scanParams finds the members of params, which must be an object or absent.
func scanParams(raw []byte) (params, *Error) {
	p := params{raw: raw}
	if raw == nil || string(raw) == "null" {
		p.raw = nil
		return p, nil
	}
	err := members(raw, paramNames[:], p.members[:])
	switch {
	case errors.Is(err, errAmbiguous):
		return p, invalid("%s", err)
	case err != nil:
		return p, invalid("invalid request: params must be an object")
	}
	return p, nil
}

// members finds the members of the given names in an object. It refuses two
// of the same name, and names that differ from a known one only in case:
// readers do not agree on which of them counts, so a policy could be told
// one thing and a server another.
func members(data []byte, names []string, spans []span) error {
	return rawjson.Object(data, rawjson.MaxDepth, func(name []byte, start, end int) error {
		for i, known := range names {
			if len(name) < len(known) || len(name) > 2*len(known) {
				continue
			}
			if string(name) != known {
				if strings.EqualFold(string(name), known) {
					return ambiguous(string(name))
				}
				continue
			}
			if spans[i].end != 0 {
				return ambiguous(known)
			}
			spans[i] = span{start, end}
			return nil
		}
		return nil
	})
}

func ambiguous(name string) error {
	return &ambiguity{name}
}

type ambiguity struct{ name string }

func (a *ambiguity) Error() string        { return "invalid request: ambiguous member " + quote(a.name) }
func (a *ambiguity) Is(target error) bool { return target == errAmbiguous }

func quote(s string) string { return string(rawjson.Quote(s)) }

// get returns a member's value, or nil.
func (p *params) get(member int) []byte {
	s := p.members[member]
	if s.end == 0 {
		return nil
	}
	return p.raw[s.start:s.end]
}

// str returns a member that is a string, and whether it is one.
func (p *params) str(member int) (string, bool) {
	value := p.get(member)
	return rawjson.String(value), rawjson.IsString(value)
}

// with returns the params with a member, which must be there, set to s.
func (p *params) with(member int, s string) []byte {
	return p.splice(member, rawjson.Quote(s))
}

// splice returns the params with a member, which must be there, set to value.
func (p *params) splice(member int, value []byte) []byte {
	at := p.members[member]
	return rawjson.Splice(p.raw, at.start, at.end, value)
}
