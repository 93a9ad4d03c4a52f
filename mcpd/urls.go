package mcpd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// urlsAsked returns what a client of 2026-07-28 is to be asked in the place of the
// error by which a server of 2025-11-25 has its client open URLs first; nothing if
// err is another, or the client opens none.
func (c *call) urlsAsked(err *Error) [][]byte {
	if err == nil || err.Code != jsonrpc.CodeURL || !c.stateless() || rawjson.Get(c.client.capabilities, "elicitation", "url") == nil {
		return nil
	}
	if urls := rawjson.Elements(rawjson.Get(err.Sent, "data", "elicitations")); len(urls) <= maxInputs {
		return urls
	}
	return nil
}

// openURLs has the client open them. Where it does not want to, the error stays
// the answer.
func (c *call) openURLs(ctx context.Context, request wire.Call, urls [][]byte, refused *Error) *Error {
	for _, params := range urls {
		r := c.asking(request.Server, "elicitation/create", params)
		r.Owner = request.Owner
		answer, err := c.session.e.inquire(ctx, r)
		switch {
		case err != nil:
			return err
		case rawjson.GetString(answer, "action") != "accept":
			return refused
		}
	}
	return nil
}

// numbered returns the params of a request to open a URL with the id that they have
// to have for a client of 2025-11-25.
func numbered(method string, params json.RawMessage) json.RawMessage {
	if method != "elicitation/create" || rawjson.GetString(params, "mode") != "url" || rawjson.Get(params, "elicitationId") != nil {
		return params
	}
	return joinMembers(slices.Concat([]byte(`{"elicitationId":`), rawjson.Quote(rand.Text()), []byte(",")), params)
}
