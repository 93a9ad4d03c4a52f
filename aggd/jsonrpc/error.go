package jsonrpc

import (
	"encoding/json"
	"fmt"
	"strconv"

	"hutch/aggd/rawjson"
)

// The codes of errors: those of JSON-RPC, MCP's one, and hutch's own.
const (
	CodeParse    = -32700
	CodeInvalid  = -32600
	CodeMethod   = -32601
	CodeParams   = -32602
	CodeInternal = -32603
	CodeResource = -32002 // MCP until 2025-11-25: no such resource
	CodeURL      = -32042 // MCP 2025-11-25: the client has to open URLs first
	CodeTimeout  = -32000
	CodeLost     = -32001 // the connection was lost before the answer
	CodeBusy     = -32005 // more requests in flight than a session may have
	CodeTooLarge = -32006 // an answer that does not fit the connection

	// MCP from 2026-07-28 on.
	CodeHeader     = -32020 // the headers of a request do not say what it says
	CodeCapability = -32021 // the client does not offer what the request needs
	CodeRevision   = -32022 // the server does not speak the request's revision
)

// An Error is an error object.
type Error struct {
	Code    int
	Message string
	Data    json.RawMessage // nil: none

	// Sent is the object as somebody sent it, nil for an error of ours.
	Sent json.RawMessage
}

// Errorf returns an error with a text of ours.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Received returns the error for an error object that somebody sent.
func Received(raw json.RawMessage) *Error {
	e := &Error{Code: CodeInternal, Message: rawjson.GetString(raw, "message"), Sent: raw}
	if e.Message == "" {
		e.Message = "an error without a message"
	}
	if code, err := strconv.Atoi(string(rawjson.Get(raw, "code"))); err == nil {
		e.Code = code
	}
	return e
}

func (e *Error) Error() string { return e.Message }

// Raw returns the error object: one that was sent byte for byte.
func (e *Error) Raw() json.RawMessage {
	if e.Sent != nil {
		return e.Sent
	}
	b := strconv.AppendInt([]byte(`{"code":`), int64(e.Code), 10)
	b = rawjson.AppendString(append(b, `,"message":`...), e.Message)
	if e.Data != nil {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, '}')
}
