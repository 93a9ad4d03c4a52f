package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/fs"
)

// What a server was seen to speak.
const (
	speaksSessions  = 1 << iota // until 2025-11-25: initialize begins a session
	speaksStateless             // 2026-07-28
)

// methodDiscover asks a server what it is, from 2026-07-28 on.
const methodDiscover = "server/discover"

// errProbed is returned when a program begins no session, as it was asked for what it
// speaks before: it is started again, and not asked.
var errProbed = errors.New("the server cannot be asked what it speaks")

// initializeWait is how long the answer to an initialize is waited for of which a
// server that speaks 2026-07-28 needs to know nothing.
const initializeWait = time.Second

// agree finds out what the server speaks, and begins to speak it. What it was seen
// to speak is remembered as long as its definition. Of both, it is what the clients
// of the connection speak: what the server's tools ask of clients may be known in
// one of them only.
func (u *upstream) agree(ctx context.Context, c *conn) error {
	era := u.era.Load()
	switch _, sse := c.transport.(*sse); {
	case sse:
		return u.initialize(ctx, c)
	case era&speaksSessions != 0 && (era&speaksStateless == 0 || !u.newer):
		err := u.initialize(ctx, c)
		if err != nil {
			u.era.Store(0)
		}
		return err
	case u.def.Stdio() && era == 0:
		return u.askBoth(ctx, c)
	}
	o, err := u.discover(ctx, c)
	if err != nil {
		return err
	}
	era = spoken(o)
	u.era.Store(era)
	if era&speaksStateless != 0 && (u.newer || era&speaksSessions == 0) {
		return u.discovered(c, o)
	}
	if err = u.initialize(ctx, c); err == nil {
		u.era.Store(era | speaksSessions)
	}
	return err
}

// discover asks for what the server speaks, and takes half the time for it. The
// outcome of one that does not know the question is an error of the server.
func (u *upstream) discover(ctx context.Context, c *conn) (outcome, error) {
	limit, cancel := context.WithTimeout(ctx, u.def.connectTimeout()/2)
	defer cancel()
	o := c.call(limit, nil, u.client, methodDiscover, nil)
	var said *jsonrpc.Error
	if err := o.failure(); errors.As(err, &said) && said.Code == jsonrpc.CodeRevision && supports(said.Sent) {
		o = c.call(limit, nil, u.client, methodDiscover, nil) // it did not take what it says that it takes
	}
	var refused *httpError
	switch {
	case o.err == nil || errors.As(o.err, &refused):
		return o, nil
	case ctx.Err() != nil: // it may have come while limit's was looked at
		return o, fmt.Errorf("initialize: %w", c.noisy(context.Cause(ctx)))
	case limit.Err() != nil:
		return o, nil
	}
	return o, fmt.Errorf("initialize: %w", o.err)
}

// discovered takes in what a server answered that speaks 2026-07-28.
func (u *upstream) discovered(c *conn, o outcome) error {
	c.stateless.Store(true)
	u.mu.Lock()
	u.session = session{
		protocol:     jsonrpc.Stateless,
		capabilities: rawjson.Get(o.result, "capabilities"),
		serverInfo:   rawjson.Get(o.result, "_meta", jsonrpc.MetaServerInfo),
		instructions: rawjson.GetString(o.result, "instructions"),
	}
	u.mu.Unlock()
	c.transport.begin(jsonrpc.Stateless)
	return nil
}

// supports reports whether an error says that 2026-07-28 is supported.
func supports(rpcError []byte) bool {
	return slices.ContainsFunc(rawjson.Elements(rawjson.Get(rpcError, "data", "supported")), func(raw []byte) bool {
		return rawjson.String(raw) == jsonrpc.Stateless
	})
}

// spoken returns what a server says that it speaks.
func spoken(o outcome) (era uint32) {
	for _, raw := range rawjson.Elements(rawjson.Get(o.result, "supportedVersions")) {
		switch revision := rawjson.String(raw); {
		case revision == jsonrpc.Stateless:
			era |= speaksStateless
		case jsonrpc.Speaks(revision):
			era |= speaksSessions
		}
	}
	return era
}

// askBoth asks a program that nobody knows what it speaks, and begins a session as
// well, so that one that never answers the first costs no time. One that answers both
// is started again: it may take what follows for either.
func (u *upstream) askBoth(ctx context.Context, c *conn) error {
	discover, err := c.start(ctx, nil, u.client, methodDiscover, nil)
	if err != nil {
		return err
	}
	defer func() {
		if c.probe == nil {
			c.leave(discover)
		}
	}()
	initialize, err := c.start(ctx, nil, u.client, "initialize", u.hello())
	if err != nil {
		return err
	}
	defer c.leave(initialize)
	var found outcome
	var late <-chan time.Time
	asked, begun := discover.outcome, initialize.outcome
	for asked != nil || begun != nil {
		select {
		case found = <-asked:
			asked = nil
			if spoken(found)&speaksStateless != 0 {
				late = time.After(initializeWait)
			}
		case o := <-begun:
			if spoken(found)&speaksStateless != 0 && o.failure() == nil {
				u.era.Store(spoken(found))
				return errProbed
			}
			begun = nil
			if err = u.initialized(ctx, c, o); err == nil && asked != nil {
				c.probe = discover
			}
			if err == nil {
				u.era.Store(speaksSessions)
				return nil
			}
		case <-late:
			u.era.Store(spoken(found))
			return errProbed
		case <-ctx.Done():
			return fmt.Errorf("initialize: %w", c.noisy(context.Cause(ctx)))
		}
	}
	return u.askedBoth(c, found, err)
}

// askedBoth goes on with what a program answered, which has begun no session: err
// says why.
func (u *upstream) askedBoth(c *conn, found outcome, err error) error {
	era := spoken(found)
	switch {
	case era&speaksStateless != 0 && (u.newer || era&speaksSessions == 0):
		u.era.Store(era)
		return u.discovered(c, found)
	case era != 0: // it would begin a session if it were not asked before
		u.era.Store(era)
		return fmt.Errorf("%w: %w", errProbed, err)
	case c.isOver():
		u.era.Store(speaksSessions)
		return fmt.Errorf("%w: %w", errProbed, err)
	}
	return err
}

// probed reports whether the program has not only begun a session, but answered
// meanwhile that it speaks 2026-07-28.
func (u *upstream) probed(c *conn) bool {
	if c.probe == nil {
		return false
	}
	defer c.leave(c.probe)
	select {
	case o := <-c.probe.outcome:
		if era := spoken(o); era&speaksStateless != 0 {
			u.era.Store(era)
			return true
		}
	default:
	}
	return false
}

// hello is what initialize tells the server.
func (u *upstream) hello() []byte {
	return fmt.Appendf(nil, `{"protocolVersion":%q,"capabilities":%s,"clientInfo":%s}`, jsonrpc.Newest, u.offer(), clientInfo)
}

// clientInfo is what hutch tells servers of itself.
var clientInfo = append(append([]byte(`{"name":"hutch","version":`), rawjson.Quote(fs.Version)...), '}')

// offer is what clients of the connection are capable of.
func (u *upstream) offer() json.RawMessage {
	if len(u.capabilities) == 0 {
		return json.RawMessage("{}")
	}
	return rawjson.Line(u.capabilities)
}
