package mcpd

import (
	"context"
	"encoding/json"
	"time"
)

// A step does what a planned call is to do.
type step func(ctx context.Context) (json.RawMessage, *Error)

// run takes a call through the stages of the pipeline, in this order, and
// returns its answer. A stage is a function that stands nowhere else:
//
//	settle  keep the signature that it came with               envelope.go
//	plan    find out what the call is about and how to do it   methods.go, route.go
//	record  write it down: the ledger has it from here on      record.go
//	decide  ask the policy; this may wait for a person         decide.go, person.go
//	mark    have the workspace kept as it is, where it may change       mark.go
//	do      do it                                              forward.go, package workspace
//	judge   ask the policy about the result                    decide.go
//	dress   make it one of the client's revision               dress.go
//	answer  write down what came of it                         record.go
//
// What a server asks of the guest is decided and judged by the policy too, see
// inquiry.go, and what it tells on the way, see tell.go.
func (c *call) run() (json.RawMessage, *Error) {
	if c.message.Method == "ping" && c.invalid == nil && !c.stateless() {
		return json.RawMessage(`{}`), nil
	}
	ctx, cancel := c.timed()
	defer func() { cancel() }()
	defer func() {
		for _, release := range c.releases {
			release()
		}
	}()
	var step step
	err := c.settle()
	if err == nil {
		step, err = c.plan(ctx)
	}
	if why := c.record(ctx); why != nil {
		return nil, why
	}
	if err == nil {
		err = c.decide()
	}
	if why := c.row.decided(c.verdict, err, c.rewritten); why != nil {
		return nil, why
	}
	var result json.RawMessage
	if err == nil {
		err = c.mark()
		if c.waited > unnoticed { // which the limit is not for
			cancel()
			ctx, cancel = c.timed()
		}
		if err == nil {
			result, err = step(ctx)
			result, err = c.judge(ctx, result, err)
			result = c.dress(result)
		}
	}
	return c.answer(result, c.dressError(err))
}

// plan finds out what the call is to do. It asks servers what they offer, and
// nothing else.
func (c *call) plan(ctx context.Context) (step, *Error) {
	if c.invalid != nil {
		return nil, c.invalid
	}
	m, ok := methods[c.message.Method]
	if !ok || !m.of.has(c) {
		return nil, c.noMethod(ok)
	}
	step, err := m.plan(ctx, c)
	if err == nil {
		err = c.resume()
	}
	return step, err
}

// unnoticed is the time of a decision that nobody waited for.
const unnoticed = 10 * time.Millisecond

// timed returns a context that ends when the call's time is over.
func (c *call) timed() (context.Context, context.CancelFunc) {
	limit := timeout
	if m := c.message.Method; m == "tools/call" || m == "tasks/result" { // which waits for one
		limit = c.session.e.cfg.CallTimeout
	}
	return context.WithTimeoutCause(c.ctx, limit-c.took(), &overdue{limit})
}

// took returns how long the call took until now, without what it waited for
// decisions.
func (c *call) took() time.Duration { return time.Since(c.begun) - c.waited }
