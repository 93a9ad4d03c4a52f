package mcpd

import (
	"encoding/json"
	"fmt"
	"strconv"

	"hutch/aggd/rawjson"
)

// The codes of JSON-RPC errors.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeTimeout  = -32000
	codeBusy     = -32005 // more requests in flight than a session may have
	codeTooLarge = -32006 // an answer that does not fit the connection
	codeResource = -32002 // MCP: no such resource
)

// An Error is a JSON-RPC error object.
type Error struct {
	Code    int
	Message string

	raw json.RawMessage // as a server sent it, if one did
}

func (e *Error) Error() string { return e.Message }

// Raw returns the error object as JSON: a server's own, byte for byte.
func (e *Error) Raw() json.RawMessage {
	if e.raw != nil {
		return e.raw
	}
	b := append([]byte(`{"code":`), strconv.Itoa(e.Code)...)
	b = append(b, `,"message":`...)
	b = rawjson.AppendString(b, e.Message)
	return append(b, '}')
}

// forwarded returns the error for a server's error object.
func forwarded(raw json.RawMessage) *Error {
	e := &Error{Code: codeInternal, Message: rawjson.GetString(raw, "message"), raw: raw}
	if code, err := strconv.Atoi(string(rawjson.Get(raw, "code"))); err == nil {
		e.Code = code
	}
	return e
}

func failure(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Error { return failure(codeInvalid, format, args...) }

func missing(param string) *Error { return failure(codeParams, "missing parameter: %s", param) }
