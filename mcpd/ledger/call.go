package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"hutch/fs"
	"hutch/mcpd/redact"
)

// What became of a call.
const (
	OK          = "ok"
	Failed      = "error"
	Interrupted = "interrupted" // nobody knows: the service was killed, or the caller gave up
)

// Pending is the decision of a call that is not decided yet.
const Pending = "pending"

// A Call is what is known of an MCP request when it begins.
type Call struct {
	Time         time.Time // when it came; zero is now
	Server       string    // "builtin", "file" or the external server's name
	Method       string
	Tool         string
	RequestID    string
	Decision     string // allowed, denied or error; Pending if Decide is to follow
	Request      []byte // previewed and redacted before it is kept
	Process      string // the guest process, as it calls itself
	BytesSent    int64
	PolicyAction string
	PolicyRule   string
	PolicyReason string
	TraceID      string
}

// A Verdict is what was decided about a call: allowed, denied or error, and
// what the policy said.
type Verdict struct{ Decision, PolicyAction, PolicyRule, PolicyReason string }

// An Outcome is what came of a call.
type Outcome struct {
	Decision      string        // replaces the call's unless empty
	Duration      time.Duration // zero is the time since Begin
	Response      []byte        // previewed and redacted before it is kept
	Error         string
	BytesReceived int64
	Outcome       string // empty is OK, or Failed where Error is set
}

// A pending is a call under way. Whoever began it decides and ends it, one
// after the other.
type pending struct {
	begun    time.Time
	decision string
	head     []byte   // of the line: number and time
	values   [][]byte // of the columns of mcp_calls, as they stand in the line
	size     int      // of the line as it was last written; guarded by DB.mu
}

func (db *DB) newPending(id uint64, c *Call) *pending {
	p := &pending{begun: time.Now(), decision: c.Decision, values: make([][]byte, len(tables[calls].columns))}
	when := c.Time
	if when.IsZero() {
		when = p.begun
	}
	p.head = appendTime(append(appendHead(nil, id), `,"timestamp":`...), when)
	p.set(db.red, Row{
		"server_name": c.Server, "method": c.Method, "tool_name": c.Tool, "request_id": c.RequestID,
		"request_preview": c.Request, "process_name": c.Process, "bytes_sent": c.BytesSent, "trace_id": c.TraceID,
		"decision": c.Decision, "policy_action": c.PolicyAction, "policy_rule": c.PolicyRule, "policy_reason": c.PolicyReason,
		// what the log will hold if no outcome ever comes
		"outcome": Interrupted, "error_message": Interrupted, "duration_ms": nil, "response_preview": nil, "bytes_received": 0,
	})
	return p
}

// set changes columns of the call's line.
func (p *pending) set(red *redact.Redactor, r Row) {
	for i, c := range tables[calls].columns {
		if v, ok := r[c.name]; ok {
			p.values[i], _ = c.append(nil, red, v) // which takes the types of a Call
		}
	}
}

// line returns the call's line.
func (p *pending) line() []byte {
	b := slices.Clone(p.head)
	for i, c := range tables[calls].columns {
		b = append(appendKey(b, c.name), p.values[i]...)
	}
	return append(b, '}', '\n')
}

func (o *Outcome) word() string {
	switch {
	case o.Outcome != "":
		return o.Outcome
	case o.Error != "":
		return Failed
	}
	return OK
}

// Begin records a call and returns its number, and how to wait until the record
// is durable: no answer may leave before wait has returned nil. End must be
// called whatever wait returns: a call that ran leaves a record, if only once
// there is space again.
func (db *DB) Begin(ctx context.Context, c Call) (id uint64, wait func(context.Context) error, err error) {
	id = db.nextCall.Add(1)
	p := db.newPending(id, &c)
	line := p.line()
	p.size = len(line)
	b, err := db.enqueue(ctx, op{kind: begin, call: id, line: line}, p)
	if err != nil {
		return 0, nil, err
	}
	return id, b.wait, nil
}

// Decide records what was decided about a call under way, and returns how to
// wait until that is durable: then the beginning is, too. It may be said anew.
func (db *DB) Decide(id uint64, v Verdict) (wait func(context.Context) error, err error) {
	db.mu.Lock()
	p := db.pending[id]
	db.mu.Unlock()
	if p == nil {
		return nil, noCall(id)
	}
	p.set(db.red, Row{
		"decision": v.Decision, "policy_action": v.PolicyAction, "policy_rule": v.PolicyRule, "policy_reason": v.PolicyReason,
	})
	line := p.line()
	db.mu.Lock()
	db.held += int64(len(line) - p.size)
	p.size = len(line)
	db.mu.Unlock()
	b, err := db.add(op{kind: begin, call: id, line: line}, db.wake)
	if err != nil {
		return nil, err
	}
	return b.wait, nil
}

func noCall(id uint64) error { return fmt.Errorf("%w: no call %d is under way", fs.ErrNotExist, id) }

// End records the outcome of a call. It is queued and not waited for; it
// fails only if no such call is under way or the database is closed.
func (db *DB) End(id uint64, o Outcome) error {
	_, err := db.end(id, &o)
	return err
}

func (db *DB) end(id uint64, o *Outcome) (*batch, error) {
	db.mu.Lock()
	p := db.pending[id]
	if p != nil {
		delete(db.pending, id)
		db.release(p)
	}
	db.mu.Unlock()
	if p == nil {
		return nil, noCall(id)
	}
	r := Row{
		"duration_ms": cmp.Or(o.Duration, time.Since(p.begun)), "response_preview": o.Response, "error_message": o.Error,
		"bytes_received": o.BytesReceived, "outcome": o.word(),
	}
	if o.Decision != "" {
		r["decision"] = o.Decision
	}
	p.set(db.red, r)
	return db.add(op{kind: end, queued: true, call: id, line: p.line()}, db.soon)
}
