package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"hutch/fs"
)

// What became of a call.
const (
	OK          = "ok"
	Failed      = "error"
	Interrupted = "interrupted" // nobody knows: the service was killed, or the caller gave up
)

// A Call is what is known of an MCP request when it has been decided.
type Call struct {
	Time         time.Time // when it came; zero is now
	Server       string    // "builtin", "file" or the external server's name
	Method       string
	Tool         string
	RequestID    string
	Decision     string // allowed, denied or error
	Request      []byte // previewed and redacted before it is kept
	Process      string // the guest process, as it calls itself
	BytesSent    int64
	PolicyAction string
	PolicyRule   string
	PolicyReason string
	TraceID      string
}

// An Outcome is what came of a call.
type Outcome struct {
	Decision      string        // replaces the call's unless empty
	Duration      time.Duration // zero is the time since Begin
	Response      []byte        // previewed and redacted before it is kept
	Error         string
	BytesReceived int64
	Outcome       string // empty is OK, or Failed where Error is set
}

// A pending is a call under way. Its line is the one that the log will hold
// if no outcome ever comes; the parts between the cuts are the same in the
// line that End makes.
type pending struct {
	begun    time.Time
	decision string
	line     []byte
	cuts     [6]int // ends of the parts: …request_id | decision, duration | request_preview | response, error | …bytes_sent | bytes_received | …trace_id

	// Both are guarded by DB.mu.
	batch *batch // that writes the line, until it is taken
	index int    // of the line in the batch
}

func (db *DB) newPending(id uint64, c *Call) *pending {
	p := &pending{begun: time.Now(), decision: db.red.word(c.Decision)}
	when := c.Time
	if when.IsZero() {
		when = p.begun
	}
	b := make([]byte, 0, 640+min(len(c.Request), textMax))
	b = appendHead(b, id)
	b = append(b, `,"timestamp":`...)
	b = appendTime(b, when)
	b = db.red.appendWord(b, `,"server_name":`, c.Server)
	b = db.red.appendWord(b, `,"method":`, c.Method)
	b = db.red.appendWord(b, `,"tool_name":`, c.Tool)
	b = db.red.appendWord(b, `,"request_id":`, c.RequestID)
	p.cuts[0] = len(b)
	b = append(b, `,"decision":`...)
	b = appendText(b, p.decision)
	b = append(b, `,"duration_ms":null`...)
	p.cuts[1] = len(b)
	b = append(b, `,"request_preview":`...)
	b = appendText(b, db.red.Preview(c.Request, textMax))
	p.cuts[2] = len(b)
	b = append(b, `,"response_preview":null,"error_message":"`+Interrupted+`"`...)
	p.cuts[3] = len(b)
	b = db.red.appendWord(b, `,"process_name":`, c.Process)
	b = append(b, `,"bytes_sent":`...)
	b = strconv.AppendInt(b, c.BytesSent, 10)
	p.cuts[4] = len(b)
	b = append(b, `,"bytes_received":0`...)
	p.cuts[5] = len(b)
	b = db.red.appendWord(b, `,"policy_action":`, c.PolicyAction)
	b = db.red.appendWord(b, `,"policy_rule":`, c.PolicyRule)
	b = append(b, `,"policy_reason":`...)
	b = appendText(b, db.red.previewString(c.PolicyReason, textMax))
	b = db.red.appendWord(b, `,"trace_id":`, c.TraceID)
	p.line = append(b, `,"outcome":"`+Interrupted+`"}`+"\n"...)
	return p
}

// ended returns the line of the call with its outcome.
func (p *pending) ended(red *Redactor, o *Outcome) []byte {
	const tail = len(`,"outcome":"` + Interrupted + `"}` + "\n")
	d := o.Duration
	if d == 0 {
		d = time.Since(p.begun)
	}
	decision := p.decision
	if o.Decision != "" {
		decision = red.word(o.Decision)
	}
	b := make([]byte, 0, len(p.line)+128+min(len(o.Response), textMax))
	b = append(b, p.line[:p.cuts[0]]...)
	b = append(b, `,"decision":`...)
	b = appendText(b, decision)
	b = append(b, `,"duration_ms":`...)
	b = appendMillis(b, d)
	b = append(b, p.line[p.cuts[1]:p.cuts[2]]...)
	b = append(b, `,"response_preview":`...)
	b = appendText(b, red.Preview(o.Response, textMax))
	b = append(b, `,"error_message":`...)
	b = appendText(b, red.previewString(o.Error, textMax))
	b = append(b, p.line[p.cuts[3]:p.cuts[4]]...)
	b = append(b, `,"bytes_received":`...)
	b = strconv.AppendInt(b, o.BytesReceived, 10)
	b = append(b, p.line[p.cuts[5]:len(p.line)-tail]...)
	b = append(b, `,"outcome":`...)
	b = appendText(b, red.word(o.word()))
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

// Begin records a call and returns its number when the record is durable.
// If it fails there is no record, and End must not be called.
func (db *DB) Begin(ctx context.Context, c Call) (uint64, error) {
	id, wait, err := db.BeginAsync(ctx, c)
	if err != nil {
		return 0, err
	}
	if err := wait(ctx); err != nil {
		if ctx.Err() != nil {
			// It may be durable all the same: then it gets its line.
			db.End(id, Outcome{Error: Interrupted, Outcome: Interrupted})
		} else {
			db.forget(id)
		}
		return 0, err
	}
	return id, nil
}

// BeginAsync is Begin for a caller that has something to do while the
// record is committed. No answer may leave before wait has returned nil. End
// must be called whatever wait returns: a call that ran leaves a record, if
// only once there is space again.
func (db *DB) BeginAsync(ctx context.Context, c Call) (id uint64, wait func(context.Context) error, err error) {
	id = db.nextCall.Add(1)
	p := db.newPending(id, &c)
	b, err := db.enqueue(ctx, op{kind: begin, call: id, line: p.line}, p)
	if err != nil {
		return 0, nil, err
	}
	return id, b.wait, nil
}

// End records the outcome of a call. It is queued and not waited for; it
// fails only if no such call is under way or the database is closed.
func (db *DB) End(id uint64, o Outcome) error {
	_, err := db.end(id, &o)
	return err
}

// EndWait is End for a caller that wants the outcome to be durable. If it
// fails for want of space the outcome is still queued.
func (db *DB) EndWait(ctx context.Context, id uint64, o Outcome) error {
	b, err := db.end(id, &o)
	if err != nil {
		return err
	}
	db.poke()
	return b.wait(ctx)
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
		return nil, fmt.Errorf("%w: no call %d is under way", fs.ErrNotExist, id)
	}
	return db.enqueueEnd(op{kind: end, call: id, line: p.ended(db.red, o)}, p)
}

func (db *DB) forget(id uint64) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if p := db.pending[id]; p != nil {
		delete(db.pending, id)
		db.release(p)
	}
}
