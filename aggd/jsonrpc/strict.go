package jsonrpc

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"hutch/aggd/rawjson"
)

var envelope = [...]string{"jsonrpc", "id", "method", "params", "result", "error"}

// ParseStrict reads an envelope that is to be judged: it refuses what two
// readers may understand differently. On an error the Message has the id, if one
// could be made out.
func ParseStrict(line []byte) (Message, *Error) {
	var m Message
	if !utf8.Valid(line) {
		return m, Errorf(CodeParse, "parse error: %v", rawjson.ErrUTF8)
	}
	var at [len(envelope)]rawjson.Span
	switch err := rawjson.Members(line, envelope[:], at[:]); {
	case errors.Is(err, rawjson.ErrType):
		return m, notAnObject(line)
	case errors.Is(err, rawjson.ErrAmbiguous):
		return m, invalid(err.Error())
	case err != nil:
		return m, Errorf(CodeParse, "parse error: %v", err)
	}
	if id := at[1].Of(line); isID(id) {
		m.ID = id
	} else if id != nil {
		return m, invalid("the id must be a string or a number")
	}
	if string(at[0].Of(line)) != `"2.0"` {
		return m, invalid(`jsonrpc must be "2.0"`)
	}
	m.V2 = true
	m.Params, m.Result, m.Error = at[3].Of(line), at[4].Of(line), orNil(at[5].Of(line))
	if method := at[2].Of(line); method != nil {
		if m.Method = rawjson.String(method); m.Method == "" {
			return m, invalid("the method must be a string")
		}
	}
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, invalid("the method is missing")
	}
	return m, nil
}

func invalid(text string) *Error { return Errorf(CodeInvalid, "invalid request: %s", text) }

func notAnObject(line []byte) *Error {
	if bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("[")) {
		return invalid("batches are not supported")
	}
	return invalid("not an object")
}

func isID(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}
