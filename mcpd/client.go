package mcpd

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A client is what a session's client said of itself, at initialize or, from
// revision 2026-07-28 on, in the _meta of a request.
type client struct {
	key          string // of its capabilities, for the aggregator
	capabilities []byte
	revision     string
	ready        atomic.Bool // notifications/initialized came
}

// offers reports whether the client has a capability.
func (cl *client) offers(capability string) bool {
	return capability != "" && rawjson.Get(cl.capabilities, capability) != nil
}

// meta is a request's _meta, and where in it the members stand that hutch reads.
type meta struct {
	raw     []byte
	members [len(metaNames)]rawjson.Span
}

const (
	mToken = iota
	mRevision
	mInfo
	mCapabilities
	mLevel
)

var metaNames = [...]string{
	mToken: "progressToken", mRevision: jsonrpc.MetaRevision, mInfo: jsonrpc.MetaClientInfo,
	mCapabilities: jsonrpc.MetaCapabilities, mLevel: jsonrpc.MetaLevel,
}

// get returns a member's value, or nil.
func (m *meta) get(member int) []byte { return m.members[member].Of(m.raw) }

// introduce takes in what the call says of its client.
func (c *call) introduce() *Error {
	raw := c.message.params.get(pMeta)
	if len(raw) == 0 || raw[0] != '{' {
		return c.unversioned()
	}
	c.meta.raw = raw
	if err := rawjson.Members(raw, metaNames[:], c.meta.members[:]); err != nil {
		c.meta = meta{}
		return invalid("invalid request: _meta: %s", err)
	}
	revision := c.meta.get(mRevision)
	if revision == nil {
		return c.unversioned()
	}
	if asked := rawjson.String(revision); asked != jsonrpc.Stateless {
		return notSpoken(revision)
	}
	capabilities := c.meta.get(mCapabilities)
	if len(capabilities) == 0 || capabilities[0] != '{' {
		return missing("_meta " + jsonrpc.MetaCapabilities)
	}
	if level := c.meta.get(mLevel); level != nil {
		c.level = int32(slices.Index(jsonrpc.Levels, rawjson.String(level)))
		if c.level < 0 {
			return failure(jsonrpc.CodeParams, "invalid level: %.40s", level)
		}
	}
	c.said = c.message.params.get(pArguments)
	var err *Error
	c.client, err = c.session.statelessClient(capabilities)
	return err
}

// unversioned says what is wrong with a request that says no revision: nothing,
// unless it is of those that have to, and no session has one.
func (c *call) unversioned() *Error {
	if c.client.revision == "" && methods[c.message.Method].of == stateless {
		return missing("_meta " + jsonrpc.MetaRevision)
	}
	return nil
}

// notSpoken is the error for a request of a revision that is not spoken without a
// session.
func notSpoken(asked []byte) *Error {
	err := failure(jsonrpc.CodeRevision, "unsupported protocol version: %.40s", asked)
	err.Data = json.RawMessage(`{"supported":` + string(jsonrpc.Spoken()) + `,"requested":` + string(asked) + `}`)
	return err
}

// stateless reports whether the call speaks for itself, as from revision
// 2026-07-28 on.
func (c *call) stateless() bool { return c.client.revision == jsonrpc.Stateless }

// is reports whether the session's client has the capabilities of that key. One
// that begins no session has none that matter outside of its requests.
func (s *session) is(key string) bool {
	cl := s.client.Load()
	return cl.key == key && (cl.revision != "" || s.alone.Load() == nil)
}

// statelessClient returns the client that offers capabilities. Most often it is
// that of the request before.
func (s *session) statelessClient(capabilities []byte) (*client, *Error) {
	if last := s.alone.Load(); last != nil && bytes.Equal(last.capabilities, capabilities) {
		return last, nil
	}
	cl := &client{revision: jsonrpc.Stateless}
	if err := cl.offer(s, capabilities); err != nil {
		return cl, err
	}
	s.alone.Store(cl)
	return cl, nil
}

// offer notes what the client is capable of.
func (cl *client) offer(s *session, capabilities []byte) *Error {
	if len(capabilities) > maxCapabilities {
		return failure(jsonrpc.CodeParams, "capabilities of %d bytes: at most %d", len(capabilities), maxCapabilities)
	}
	cl.capabilities = bytes.Clone(capabilities) // which stays when the rest goes
	cl.key = s.key(wire.ClientParams{Capabilities: cl.capabilities, Stateless: cl.revision == jsonrpc.Stateless})
	return nil
}
