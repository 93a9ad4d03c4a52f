package ledger

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"hutch/aggd/rawjson"
	"hutch/fs"
	"hutch/mcpd/redact"
)

// What became of a call.
const (
	OK          = "ok"
	Failed      = "error"
	Interrupted = "interrupted" // nobody knows: the service was killed, or the caller gave up
)

// Who asks whom.
const (
	FromGuest  = "guest"  // the guest, or a person in its place, asks a server
	FromServer = "server" // a server asks the guest: sampling, elicitation, roots
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
	Direction    string // empty is FromGuest
	Principal    string // the person who asks, empty if the guest's program does
}

// A Verdict is what was decided about a call: allowed, denied or error, and
// what the policy said.
type Verdict struct {
	Decision, PolicyAction, PolicyRule, PolicyReason string
	Request                                          []byte // in the place of the call's, if the policy changed it; else nil
}

// An Outcome is what came of a call.
type Outcome struct {
	Decision      string        // replaces the call's unless empty
	Duration      time.Duration // zero is the time since Begin
	Response      []byte        // previewed and redacted before it is kept
	Error         string
	BytesReceived int64
	IsError       bool   // the answer is an error, of a tool too
	Outcome       string // empty is OK, or Failed where Error is set
}

// A pending is a call under way. Whoever began it decides and ends it, one
// after the other.
type pending struct {
	begun time.Time
	call  UnderWay

	mu   sync.Mutex     // guards what follows
	text []byte         // values as they stand in the line, also such as were replaced
	head rawjson.Span   // number and time
	at   []rawjson.Span // of each column of mcp_calls

	// These are guarded by DB.mu.
	size  int    // of the line as it was last written
	batch *batch // that has the line, if it is still collecting
	index int    // of the line in the batch
}

// A cell is the value of a column.
type cell struct {
	column string
	value  any
}

func (db *DB) newPending(id uint64, c *Call) *pending {
	p := &pending{
		begun: time.Now(),
		text:  make([]byte, 0, 512+min(len(c.Request), textMax)),
		at:    make([]rawjson.Span, len(tables[calls].columns)),
	}
	when := c.Time
	if when.IsZero() {
		when = p.begun
	}
	p.call = UnderWay{ID: id, Begun: when, Method: c.Method, Tool: c.Tool}
	p.text = appendTime(append(appendHead(p.text, id), `,"timestamp":`...), when)
	p.head.End = len(p.text)
	p.set(db.red,
		cell{"server_name", c.Server}, cell{"method", c.Method}, cell{"tool_name", c.Tool}, cell{"request_id", c.RequestID},
		cell{"request_preview", c.Request}, cell{"process_name", c.Process}, cell{"bytes_sent", c.BytesSent}, cell{"trace_id", c.TraceID},
		cell{"direction", cmp.Or(c.Direction, FromGuest)}, cell{"principal", c.Principal},
		cell{"decision", c.Decision}, cell{"policy_action", c.PolicyAction}, cell{"policy_rule", c.PolicyRule}, cell{"policy_reason", c.PolicyReason},
		// what the log will hold if no outcome ever comes
		cell{"outcome", Interrupted}, cell{"error_message", Interrupted},
		cell{"duration_ms", nil}, cell{"response_preview", nil}, cell{"bytes_received", 0}, cell{"is_error", nil})
	return p
}

// set changes columns of the call's line.
func (p *pending) set(red *redact.Redactor, cells ...cell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &tables[calls]
	for _, c := range cells {
		i := t.index(c.column)
		start := len(p.text)
		p.text, _ = t.columns[i].append(p.text, red, c.value) // which takes the types of a Call
		p.at[i] = rawjson.Span{Start: start, End: len(p.text)}
	}
}

// line returns the call's line.
func (p *pending) line() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := make([]byte, 0, len(p.text)+len(tables[calls].columns)*24)
	b = append(b, p.head.Of(p.text)...)
	for i, c := range tables[calls].columns {
		b = append(appendKey(b, c.name), p.at[i].Of(p.text)...)
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
	wake := db.wake
	if c.Decision == Pending {
		wake = db.soon
	}
	b, err := db.enqueue(ctx, op{kind: begin, call: id, line: p.line()}, p, wake)
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
	p.set(db.red, cell{"decision", v.Decision},
		cell{"policy_action", v.PolicyAction}, cell{"policy_rule", v.PolicyRule}, cell{"policy_reason", v.PolicyReason})
	if v.Request != nil {
		p.set(db.red, cell{"request_preview", v.Request})
	}
	b, err := db.goOn(p, op{kind: begin, call: id, line: p.line()}, db.wake)
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
	p.set(db.red, cell{"duration_ms", cmp.Or(o.Duration, time.Since(p.begun))}, cell{"response_preview", o.Response},
		cell{"error_message", o.Error}, cell{"bytes_received", o.BytesReceived}, cell{"outcome", o.word()}, cell{"is_error", o.IsError || o.Error != ""})
	if o.Decision != "" {
		p.set(db.red, cell{"decision", o.Decision})
	}
	return db.goOn(p, op{kind: end, queued: true, call: id, line: p.line()}, db.soon)
}
