package relay

import (
	"bytes"
	"strconv"

	"hutch/aggd/rawjson"
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
}

// parse reads the envelope. What comes before an error in it still counts.
func parse(line []byte) message {
	m := message{line: line}
	answer := false
	err := rawjson.Object(line, rawjson.MaxDepth, func(name []byte, start, end int) error {
		value := line[start:end]
		switch string(name) {
		case "id":
			m.id = value
		case "method":
			m.method = rawjson.String(value)
		case "result", "error":
			answer = true
		}
		return nil
	})
	null := m.id == nil || string(m.id) == "null"
	switch {
	case err != nil:
		return m
	case m.method != "" && m.id == nil:
		m.kind = notice
	case m.method != "":
		m.kind = request
	case answer && !null:
		m.kind = response
	}
	return m
}

// failure returns the response to a request that failed.
func failure(id []byte, code int, text string) []byte {
	if id == nil {
		id = []byte("null")
	}
	b := append([]byte(`{"jsonrpc":"2.0","id":`), bytes.TrimSpace(id)...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, `,"message":`...)
	b = rawjson.AppendString(b, text)
	return append(b, "}}"...)
}
