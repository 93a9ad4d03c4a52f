package mcpd

import (
	"encoding/json"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// The members that results have from revision 2026-07-28 on, and not before.
const (
	rType = iota
	rTTL
	rScope
	rMeta
)

var resultNames = [...]string{rType: "resultType", rTTL: "ttlMs", rScope: "cacheScope", rMeta: "_meta"}

// private is the scope of all that may be kept: lists and contents are what the
// policy of this VM leaves of them.
const private = `"private"`

// dress makes a result one of the revision that the call is of.
func (c *call) dress(result json.RawMessage) json.RawMessage {
	if !c.stateless() || result == nil {
		return result
	}
	var at [len(resultNames)]rawjson.Span
	if rawjson.Members(result, resultNames[:], at[:]) != nil {
		return result // no object, or what two readers read differently: as the server has it
	}
	b := []byte("{")
	add := func(name, value string) {
		b = append(append(append(append(b, '"'), name...), `":`...), value...)
		b = append(b, ',')
	}
	kind := rawjson.String(at[rType].Of(result))
	if at[rType].End == 0 {
		kind = "complete"
		add(resultNames[rType], `"complete"`)
	}
	if kind == "complete" && is(c.message.Method, cacheable) {
		if at[rTTL].End == 0 {
			add(resultNames[rTTL], "0")
		}
		switch scope := at[rScope]; {
		case scope.End == 0:
			add(resultNames[rScope], private)
		case string(scope.Of(result)) != private:
			result = rawjson.Splice(result, scope.Start, scope.End, []byte(private))
		}
	}
	if at[rMeta].End == 0 {
		add(resultNames[rMeta], `{"`+jsonrpc.MetaServerInfo+`":`+string(serverInfo)+`}`)
	}
	return joinMembers(b, result)
}

// joinMembers returns the object that has the members which b begins, each with
// its comma, and then those of object.
func joinMembers(b, object []byte) []byte {
	if len(b) == 1 {
		return object
	}
	rest := rawjson.Inside(object)
	if len(rest) == 0 {
		b = b[:len(b)-1]
	}
	return append(append(b, rest...), '}')
}

// dressError makes an error one of the revision that the call is of.
func (c *call) dressError(err *Error) *Error {
	if err == nil || !c.stateless() || err.Code != jsonrpc.CodeResource {
		return err
	}
	dressed := *err
	dressed.Code = jsonrpc.CodeParams
	if err.Sent != nil {
		dressed.Sent = rawjson.Set(err.Sent, []byte("-32602"), "code")
	}
	return &dressed
}

// noMethod is the error for a request that there is not, or, where it is known,
// not in this revision.
func (c *call) noMethod(known bool) *Error {
	if known && c.stateless() {
		return failure(jsonrpc.CodeMethod, "method not found: %s is not in %s", c.message.Method, jsonrpc.Stateless)
	}
	return noMethod(c.message.Method)
}
