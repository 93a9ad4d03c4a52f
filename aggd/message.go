package aggd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hutch/aggd/rawjson"
)

// A message is the envelope of one JSON-RPC message; its values are pieces of the
// line it came in.
type message struct {
	id, params, result, err json.RawMessage
	method                  string
}

// open reads an envelope.
func open(line []byte) (message, error) {
	var m message
	err := rawjson.Object(line, rawjson.Deepest, func(name []byte, start, end int) error {
		value := json.RawMessage(line[start:end])
		null := string(value) == "null"
		switch name := string(name); {
		case name == "id" && !null:
			m.id = value
		case name == "method":
			m.method = rawjson.String(value)
		case name == "params":
			m.params = value
		case name == "result":
			m.result = value
		case name == "error" && !null:
			m.err = value
		}
		return nil
	})
	switch {
	case errors.Is(err, rawjson.ErrType):
		return message{}, errors.New("not an object")
	case err != nil:
		return message{}, fmt.Errorf("not JSON: %w", err)
	}
	return m, nil
}

// number returns the id as one of ours.
func (m message) number() (uint64, bool) {
	n, err := strconv.ParseUint(string(m.id), 10, 64)
	return n, err == nil
}

// encodeRequest returns a request, or without an id a notification.
func encodeRequest(id uint64, method string, params []byte) []byte {
	line := make([]byte, 0, len(method)+len(params)+64)
	line = append(line, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		line = append(line, `"id":`...)
		line = append(strconv.AppendUint(line, id, 10), ',')
	}
	line = append(append(line, `"method":`...), rawjson.Quote(method)...)
	if len(params) > 0 {
		line = append(append(line, `,"params":`...), params...)
	}
	return append(line, '}')
}

// encodeReply returns the answer to a server's request.
func encodeReply(id, result, rpcError []byte) []byte {
	line := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	if len(rpcError) > 0 {
		line = append(append(line, `,"error":`...), rpcError...)
	} else {
		line = append(append(line, `,"result":`...), result...)
	}
	return append(line, '}')
}

// encodeError returns an error object.
func encodeError(code int, text string) []byte {
	return fmt.Appendf(nil, `{"code":%d,"message":%s}`, code, rawjson.Quote(text))
}

// rpcError is an error object as a server sent it.
type rpcError json.RawMessage

func (e rpcError) Error() string {
	text := rawjson.GetString(e, "message")
	if text == "" {
		text = "an error without a message"
	}
	return fmt.Sprintf("%s (%s)", text, rawjson.Get(e, "code"))
}
