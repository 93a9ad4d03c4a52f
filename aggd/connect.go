package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// A session is what a server said of itself at initialize.
type session struct {
	protocol     string
	capabilities json.RawMessage
	serverInfo   json.RawMessage
	instructions string
}

// offers reports whether the server declared a capability.
func (s session) offers(capability string) bool {
	return rawjson.Get(s.capabilities, capability) != nil
}

// connect makes a connection: transport, initialize, and the lists.
func (u *upstream) connect(ctx context.Context) (*conn, error) {
	if s := u.def.served; s != nil { // whose program may take its time, of which hutchd sees the end
		p, err := s.acquire(ctx)
		if err != nil {
			return nil, err
		}
		defer s.release(p)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, u.def.connectTimeout(), u.def.silent())
	defer cancel()
	for {
		c, err := u.establish(ctx)
		if err != nil {
			return nil, err
		}
		if c.stateless.Load() {
			u.resumeListens(ctx, c)
		} else {
			u.replay(ctx, c)
		}
		u.fetchAll(ctx, c)
		if !u.probed(c) {
			return c, nil
		}
		c.end(errProbed)
	}
}

// establish tries the transports that the server may speak, one after the other.
func (u *upstream) establish(ctx context.Context) (*conn, error) {
	var first error
	for _, open := range u.transports() {
		c := newConn(u)
		err := open(ctx, c)
		if err == nil {
			err = u.agree(ctx, c)
		}
		if err == nil {
			return c, nil
		}
		if c.transport != nil {
			c.end(err)
		}
		if first == nil || errors.Is(first, errProbed) {
			first = err
		}
		if !errors.Is(err, errNotSpoken) && !errors.Is(err, errProbed) {
			break
		}
	}
	return nil, first
}

// errNotSpoken is returned when a server answers as one of the older transport does.
var errNotSpoken = errors.New("streamable HTTP is not spoken there")

// transports returns what to try.
func (u *upstream) transports() []func(context.Context, *conn) error {
	stdio := func(ctx context.Context, c *conn) error { return openStdio(ctx, c, u.def) }
	streamable := func(ctx context.Context, c *conn) error { return openStreamable(ctx, c, u.def) }
	sse := func(ctx context.Context, c *conn) error { return openSSE(ctx, c, u.def) }
	type list = []func(context.Context, *conn) error
	switch {
	case u.def.Stdio():
		return list{stdio, stdio} // again if it died of being asked what it speaks
	case u.def.Type == "sse":
		return list{sse}
	case u.def.Type == "streamable-http" || u.def.Type == "streamable":
		return list{streamable}
	}
	return list{streamable, sse}
}

// initialize makes the handshake.
func (u *upstream) initialize(ctx context.Context, c *conn) error {
	return u.initialized(ctx, c, c.call(ctx, nil, u.client, "initialize", u.hello()))
}

// initialized takes in the answer to initialize.
func (u *upstream) initialized(ctx context.Context, c *conn, o outcome) error {
	if err := o.failure(); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	s := session{
		protocol:     rawjson.GetString(o.result, "protocolVersion"),
		capabilities: rawjson.Get(o.result, "capabilities"),
		serverInfo:   rawjson.Get(o.result, "serverInfo"),
		instructions: rawjson.GetString(o.result, "instructions"),
	}
	if !jsonrpc.Speaks(s.protocol) {
		return fmt.Errorf("initialize: the server speaks protocol version %.40q", s.protocol)
	}
	u.mu.Lock()
	u.session = s
	u.mu.Unlock()
	c.transport.begin(s.protocol)
	if err := c.notify(ctx, "notifications/initialized", nil); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return nil
}
