package mcpd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hutch/aggd/rawjson"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
)

// A call is one request under way.
type call struct {
	session *session
	ctx     context.Context
	cancel  context.CancelCauseFunc
	message message
	stream  uint32
	version uint8
	process string
	begun   time.Time
	sent    int    // bytes of the request
	lent    int    // bytes of the answer that the session's account holds
	invalid *Error // found out before it was started

	// What planning finds out, for the ledger.
	server  string // that it goes to, as the ledger names it
	tool    string
	verdict verdict

	upstream atomic.Pointer[string] // the server that it is under way to
}

// A verdict is what was decided about a call, and by which rule.
type verdict struct {
	denied               bool
	action, rule, reason string
}

// A step does what a planned call is to do.
type step func(ctx context.Context) (json.RawMessage, *Error)

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
	b := response(make([]byte, 0, len(result)+len(c.message.id)+64), c.message.id, result, err)
	f := frame.Frame{Version: c.version, Stream: c.stream, Process: c.process, Payload: b}
	if c.session.out.WriteFrame(f) == frame.ErrTooLarge {
		f.Payload = response(nil, c.message.id, nil, c.tooLarge(len(b)))
		c.session.out.WriteFrame(f)
	}
}

func (c *call) tooLarge(n int) *Error {
	return failure(codeTooLarge, "result too large: %d bytes do not fit a frame of version %d", n, c.version)
}

// run plans, records and does the call.
func (c *call) run() (json.RawMessage, *Error) {
	if c.message.method == "ping" {
		return json.RawMessage(`{}`), nil
	}
	limit := c.session.e.cfg.Timeout
	if c.message.method == "tools/call" {
		limit = c.session.e.cfg.CallTimeout
	}
	ctx, cancel := context.WithTimeoutCause(c.ctx, limit, &overdue{limit})
	defer cancel()
	do, err := c.plan(ctx)
	db, lerr := c.session.e.cfg.Ledger()
	if lerr != nil {
		return nil, failure(codeInternal, "ledger: %s", lerr)
	}
	id, durable, lerr := db.BeginAsync(ctx, c.record(err))
	if lerr != nil {
		return nil, failure(codeInternal, "ledger: %s", lerr)
	}
	c.session.e.count.begun.Add(1)
	var result json.RawMessage
	if err == nil {
		result, err = do(ctx)
		err = c.judge(result, err)
	}
	c.session.e.count.add(c.verdict.denied, err)
	db.End(id, c.outcome(result, err, time.Since(c.begun))) // before the wait: often one commit takes both
	if lerr = durable(context.WithoutCancel(ctx)); lerr != nil {
		return nil, failure(codeInternal, "ledger: %s", lerr)
	}
	return result, err
}

// plan finds out what the call is to do.
func (c *call) plan(ctx context.Context) (step, *Error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	plan, ok := methods[c.message.method]
	if !ok {
		return nil, failure(codeMethod, "method not found: %s", c.message.method)
	}
	return plan(ctx, c)
}

// judge returns the error that the client is to see. An answer that is too
// large to be sent, or for which there is no room while others are not read, is
// none.
func (c *call) judge(result json.RawMessage, err *Error) *Error {
	n := len(result)
	if err != nil {
		n = len(err.raw)
	}
	switch {
	case c.session.out == nil:
		return err
	case err == nil && !frame.Fits(c.version, c.process, n+len(c.message.id)+64):
		return c.tooLarge(n)
	case c.session.account.Lend(n):
		c.lent = n
		return err
	}
	c.session.note("mcp.pending", "answers are not read")
	return failure(codeBusy, "no room for an answer of %d bytes: read those that wait first", n)
}

// record is the call's begin in the ledger; err is why it goes no further.
func (c *call) record(err *Error) ledger.Call {
	decision := "allowed"
	switch {
	case c.verdict.denied:
		decision = "denied"
	case err != nil:
		decision = "error"
	}
	return ledger.Call{
		Server: c.server, Method: c.message.method, Tool: c.tool, RequestID: string(c.message.id),
		Decision: decision, Request: c.message.params.raw, Process: c.process, BytesSent: int64(c.sent),
		PolicyAction: c.verdict.action, PolicyRule: c.verdict.rule, PolicyReason: c.verdict.reason,
		TraceID: c.trace(),
	}
}

func (c *call) outcome(result json.RawMessage, err *Error, took time.Duration) ledger.Outcome {
	o := ledger.Outcome{Duration: took, Response: result, BytesReceived: int64(len(result))}
	if cause := context.Cause(c.ctx); cause != nil {
		var gone *cancellation
		err = failure(codeInternal, "%s", cause)
		if errors.As(cause, &gone) && gone.reason != "" {
			err = failure(codeInternal, "cancelled by the client: %s", gone.reason)
		}
	}
	if err != nil {
		o.Error = err.Message
		o.Response = err.raw
		if !c.verdict.denied {
			o.Decision = "error"
		}
	}
	return o
}

// trace returns the W3C trace id that the client gave, or a new one.
func (c *call) trace() string {
	if meta := c.message.params.get(pMeta); meta != nil {
		parent := rawjson.GetString(meta, "traceparent")
		if len(parent) >= 55 && parent[2] == '-' && parent[35] == '-' && isTrace(parent[3:35]) {
			return parent[3:35]
		}
	}
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func isTrace(s string) bool {
	zero := true
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
		zero = zero && c == '0'
	}
	return !zero
}

// An overdue is the cause of a call's end by its time limit.
type overdue struct{ limit time.Duration }

func (o *overdue) Error() string {
	return fmt.Sprintf("MCP request timed out after %d ms", o.limit.Milliseconds())
}
func (o *overdue) Is(target error) bool { return target == errTimeout }
