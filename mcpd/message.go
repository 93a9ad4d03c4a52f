package mcpd

import (
	"errors"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// A message is a JSON-RPC message of the guest.
type message struct {
	jsonrpc.Message
	params params
}

// params are a request's params, and where in them the members stand that
// hutch reads or replaces.
type params struct {
	raw     []byte
	members [len(paramNames)]rawjson.Span
}

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
	pRequestState
	pInputResponses
	pTask
	pTaskID
)

var paramNames = [...]string{
	pName: "name", pURI: "uri", pMeta: "_meta", pRef: "ref", pLevel: "level", pCursor: "cursor",
	pArguments: "arguments", pRequestID: "requestId", pReason: "reason",
	pProtocolVersion: "protocolVersion", pCapabilities: "capabilities", pProgressToken: "progressToken",
	pType: "type", pRequestState: "requestState", pInputResponses: "inputResponses",
	pTask: "task", pTaskID: "taskId",
}

// parse reads a message. On an error it has the id, if one could be made out.
func parse(data []byte) (message, *Error) {
	envelope, err := jsonrpc.ParseStrict(data)
	m := message{Message: envelope}
	if err == nil {
		m.params, err = scanParams(envelope.Params)
	}
	return m, err
}

// parse is parse for a message that may not be nested deeper than the endpoint's
// limit.
func (s *session) parse(data []byte) (message, *Error) {
	m, err := parse(data)
	if limit := s.e.limits.Load().MaxDepth; err == nil && limit < rawjson.MaxDepth {
		if deep := rawjson.Object(data, limit, nil); deep != nil {
			return m, invalid("invalid request: %s", deep)
		}
	}
	return m, err
}

// scanParams finds the members of params, which must be an object or absent.
func scanParams(raw []byte) (params, *Error) {
	p := params{raw: raw}
	if raw == nil || string(raw) == "null" {
		p.raw = nil
		return p, nil
	}
	err := rawjson.Members(raw, paramNames[:], p.members[:])
	switch {
	case errors.Is(err, rawjson.ErrAmbiguous):
		return p, invalid("invalid request: %s", err)
	case err != nil:
		return p, invalid("invalid request: params must be an object")
	}
	return p, nil
}

func quote(s string) string { return string(rawjson.Quote(s)) }

// get returns a member's value, or nil.
func (p *params) get(member int) []byte {
	return p.members[member].Of(p.raw)
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
	return rawjson.Splice(p.raw, at.Start, at.End, value)
}
