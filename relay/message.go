package relay

import (
	"bytes"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/trace"
	"hutch/mcpd/seal"
)

// The kinds of messages.
type kind int

const (
	opaque   kind = iota // not a JSON-RPC message; the host says what is wrong with it
	request              // has a method and an id
	notice               // has a method
	response             // has an id, and a result or an error
)

// A message is one line, and what of its envelope counts here.
type message struct {
	line   []byte
	kind   kind
	id     []byte // as it stands in line, nil if there is none
	method string
	part   *part // of a batch; nil: it stands alone
}

// parse reads the envelope. What comes before an error in it still counts. Of a
// message that the client itself has signed it tells the id.
func parse(line []byte) message {
	if seal.Is(line) {
		signed, _ := seal.Parse(line)
		inner, _ := jsonrpc.Parse(signed.Payload)
		return message{line: line, id: inner.ID}
	}
	envelope, err := jsonrpc.Parse(line)
	m := message{line: line, id: envelope.ID, method: envelope.Method}
	switch {
	case err != nil:
	case m.method != "" && m.id == nil:
		m.kind = notice
	case m.method != "":
		m.kind = request
	case envelope.HasID() && (envelope.Result != nil || envelope.Error != nil):
		m.kind = response
	}
	return m
}

// traced returns the line of a request as part of the relay's trace, if it says none
// and there is room.
func (r *relay) traced(line []byte) []byte {
	if r.trace.IsZero() || len(line)+trace.Overhead > r.limit {
		return line
	}
	envelope, err := jsonrpc.Parse(line)
	if parent, _ := trace.InMeta(rawjson.Get(envelope.Params, "_meta")); err != nil || parent != "" {
		return line
	}
	params := trace.Put(envelope.Params, r.trace)
	if envelope.Params != nil {
		return rawjson.Set(line, params, "params")
	}
	end := bytes.LastIndexByte(line, '}')
	return rawjson.Splice(line, end, end, append([]byte(`,"params":`), params...))
}

// failure returns the response to a request that failed.
func failure(id []byte, code int, text string) []byte {
	return jsonrpc.Response(id, nil, jsonrpc.Errorf(code, "%s", text).Raw())
}
