package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/trace"
	"hutch/aggd/wire"
	"hutch/mcpd/frame"
)

// A call is one request under way.
type call struct {
	session *session
	client  *client // who makes it
	meta    meta
	said    []byte // its arguments as the client gave them, of one that speaks for itself
	level   int32  // of the log messages that it wants; noLevel: it does not say
	ctx     context.Context
	cancel  context.CancelCauseFunc
	message message
	stream  uint32
	version uint8
	process string
	who     string // asks through the tree; "": the guest
	begun   time.Time
	sent    int    // bytes of the request
	lent    int    // bytes of the answer that the session's account holds
	ticket  uint64 // of the envelope that it came in; 0: it is in none
	invalid *Error // found out before it was started

	// What planning finds out.
	tool    string       // or prompt, or resource, as the guest names it
	server  string       // that has it
	own     string       // its name there
	renamed bool         // an Arrange gave it the name that the guest knows, or a config, of a composite tool
	missing bool         // there is no such server, or no such tool
	held    *wire.Hold   // the tool is held back; nil: it is not
	schema  []byte       // what the tool takes; nil: nobody knows
	file    *fileCall    // what it does to the workspace; nil: nothing
	command *commandCall // what it runs in the guest; nil: nothing

	row       row
	trace     trace.Context // its own place in it
	verdict   verdict
	inside    string        // why its tool refused it; "": it did not
	rewritten []byte        // the params, where a policy changed them; nil: they are as they came
	waited    time.Duration // for decisions
	releases  []func()      // end it for what counts calls that are under way

	upstream atomic.Pointer[string] // the server that it is under way to
	task     *task                  // that it is about, or nil
	listen   *listen                // that it is a part of, or nil
	exchange *exchange              // that it belongs to; nil: nobody asks its client for anything
	making   *making                // of a composite tool, of which it is a step; nil: it is none
}

// target returns the server that the call is under way to, or "".
func (c *call) target() string {
	if name := c.upstream.Load(); name != nil {
		return *name
	}
	return ""
}

// serve runs the call and answers it, unless nobody wants the answer.
func (c *call) serve() {
	defer c.session.end(c)
	result, err := c.run()
	defer func() { c.session.account.Read(c.lent) }()
	if c.ctx.Err() != nil {
		return
	}
	c.reply(result, err)
}

func (c *call) reply(result json.RawMessage, err *Error) {
	b := response(c.message.ID, result, err)
	f := frame.Frame{Version: c.version, Stream: c.stream, Process: c.process, Payload: b}
	if c.session.out.WriteFrame(f) == frame.ErrTooLarge {
		f.Payload = response(c.message.ID, nil, c.tooLarge(len(b)))
		c.session.out.WriteFrame(f)
	}
}

// fit returns the error that the client is to see. An answer that is too
// large to be sent, or for which there is no room while others are not read, is
// none.
func (c *call) fit(result json.RawMessage, err *Error) *Error {
	n := len(result)
	if err != nil {
		n = len(err.Sent)
	}
	switch {
	case c.session.out == nil || c.making != nil || err != nil && err.Sent == nil:
		return err
	case err == nil && !frame.Fits(c.version, c.process, n+len(c.message.ID)+64):
		return c.tooLarge(n)
	case c.session.account.Lend(n):
		c.lent = n
		return err
	}
	c.session.note("mcp.pending", "answers are not read")
	return failure(jsonrpc.CodeBusy, "no room for an answer of %d bytes: read those that wait first", n)
}

func (c *call) tooLarge(n int) *Error {
	return failure(jsonrpc.CodeTooLarge, "result too large: %d bytes do not fit a frame of version %d", n, c.version)
}

// traceOf returns the place of a request in the trace that the client says it is
// part of, or in a new one.
func traceOf(p *params) trace.Context { return trace.From(trace.InMeta(p.get(pMeta))).Child() }

// An overdue is the cause of a call's end by its time limit.
type overdue struct{ limit time.Duration }

func (o *overdue) Error() string {
	return fmt.Sprintf("MCP request timed out after %d ms", o.limit.Milliseconds())
}
func (o *overdue) Is(target error) bool { return target == errTimeout }
