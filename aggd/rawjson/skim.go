package rawjson

import "encoding/json"

// A Skim finds the id of one JSON-RPC message as its bytes are written to it
// piece by piece, so that a message too long to keep can still be answered.
type Skim struct {
	depth    int
	inString bool
	escaped  bool
	behind   bool   // behind the colon of a member of the outermost object
	text     []byte // the key or scalar being read there, cut at skimKept
	key      string
	id       []byte
	v2       bool
	outcome  bool // there is a result or an error
}

// skimKept is the most a Skim keeps of one key or scalar.
const skimKept = 256

// Write skims p; it never fails.
func (s *Skim) Write(p []byte) (int, error) {
	for _, c := range p {
		s.step(c)
	}
	return len(p), nil
}

// ID returns the id of the message, or nil if it had none that is a scalar.
func (s *Skim) ID() json.RawMessage {
	if !json.Valid(s.id) {
		return nil
	}
	return s.id
}

// Answers reports whether the message began as an answer of JSON-RPC 2.0.
func (s *Skim) Answers() bool { return s.v2 && s.outcome }

func (s *Skim) step(c byte) {
	if s.inString {
		s.keep(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.inString = false
		}
		return
	}
	switch c {
	case '"':
		s.inString = true
		s.keep(c)
	case '{', '[':
		s.depth++
		s.text, s.behind = s.text[:0], false
	case '}', ']':
		s.member()
		s.depth--
	case ':':
		if s.depth == 1 {
			s.key = String(s.text)
			s.outcome = s.outcome || s.key == "result" || s.key == "error"
			s.text, s.behind = s.text[:0], true
		}
	case ',':
		s.member()
	case ' ', '\t', '\r', '\n':
	default:
		s.keep(c)
	}
}

// member ends a member of the outermost object.
func (s *Skim) member() {
	if s.depth != 1 {
		return
	}
	switch {
	case !s.behind:
	case s.key == "id" && len(s.text) > 0 && len(s.text) < skimKept:
		s.id = append([]byte(nil), s.text...)
	case s.key == "jsonrpc":
		s.v2 = string(s.text) == `"2.0"`
	}
	s.text, s.behind = s.text[:0], false
}

func (s *Skim) keep(c byte) {
	if s.depth == 1 && len(s.text) < skimKept {
		s.text = append(s.text, c)
	}
}
