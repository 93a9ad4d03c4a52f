// Package jsonrpc has what every speaker of MCP in hutch needs of its messages:
// the envelope, error objects and their codes, the revisions of the protocol,
// and the names under which a guest knows what servers offer.
package jsonrpc

import (
	"encoding/json"
	"strconv"

	"hutch/aggd/rawjson"
)

// A Message is the envelope of a request, a notification or a response. Its
// values are pieces of the text it came in; what is nil was not there.
type Message struct {
	V2     bool // it says that it is of JSON-RPC 2.0
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage // never null
}

// Parse reads an envelope in one pass over the line. Of members that occur
// twice it takes the last, as most decoders do. What comes before an error is
// in the Message.
func Parse(line []byte) (Message, error) { return ParseTo(rawjson.Deepest, line) }

// ParseTo is Parse for a line that may be nested no deeper than depth.
func ParseTo(depth int, line []byte) (Message, error) {
	var m Message
	err := rawjson.Object(line, depth, func(name []byte, start, end int) error {
		value := json.RawMessage(line[start:end])
		switch string(name) {
		case "jsonrpc":
			m.V2 = string(value) == `"2.0"`
		case "id":
			m.ID = value
		case "method":
			m.Method = rawjson.String(value)
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Error = orNil(value)
		}
		return nil
	})
	return m, err
}

func orNil(value []byte) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}

// HasID reports whether there is an id, which null is not.
func (m Message) HasID() bool { return orNil(m.ID) != nil }

// Answers reports whether the message is an answer: it has no method, but a
// result or an error object.
func (m Message) Answers() bool {
	return m.V2 && m.Method == "" && (m.Result != nil || len(m.Error) > 0 && m.Error[0] == '{')
}

// Number returns an id or a token as a number of ours.
func Number(id []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(id), 10, 64)
	return n, err == nil
}

// Request returns the line of a request.
func Request(id uint64, method string, params []byte) []byte {
	return Message{ID: strconv.AppendUint(nil, id, 10), Method: method, Params: params}.Encode()
}

// Notification returns the line of a notification.
func Notification(method string, params []byte) []byte {
	return Message{Method: method, Params: params}.Encode()
}

// Response returns the line of a response, with err where that is not nil. No
// id stands for null.
func Response(id, result, err []byte) []byte {
	if id == nil {
		id = []byte("null")
	}
	return Message{ID: id, Result: result, Error: err}.Encode()
}

// Encode returns m as a line without its end. One without a method is a response.
func (m Message) Encode() []byte {
	b := make([]byte, 0, len(m.ID)+len(m.Method)+len(m.Params)+len(m.Result)+len(m.Error)+64)
	b = append(b, `{"jsonrpc":"2.0"`...)
	b = member(b, "id", m.ID)
	switch {
	case m.Method != "":
		b = rawjson.AppendString(append(b, `,"method":`...), m.Method)
		b = member(b, "params", m.Params)
	case m.Error != nil:
		b = member(b, "error", m.Error)
	default:
		b = member(b, "result", m.Result)
	}
	return append(b, '}')
}

func member(b []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return append(b, value...)
}
