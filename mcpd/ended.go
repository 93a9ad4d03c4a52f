package mcpd

import (
	"cmp"
	"time"

	"hutch/aggd/trace"
	"hutch/mcpd/ledger"
)

// An Ended is a call that has its answer, for whoever counts and traces calls.
type Ended struct {
	Method, Server string
	Name           string // of the tool, prompt or resource
	Missing        bool   // there is no such server, or no such tool: the names are the guest's own
	RequestID      string // as JSON; "" if it is longer than any client's
	Session        string // "": it was asked for through the tree
	Revision       string // of MCP, that the client speaks
	Decision       string // allowed, denied or error
	Rule           string // by which it was decided

	Began   time.Time
	Took    time.Duration // without waiting for a person
	Code    int           // of the JSON-RPC error that is the answer; 0: it is none
	IsError bool          // the tool says that it failed
	Trace   trace.Context // its place there
}

// maxRequestID is more than an id of any client has.
const maxRequestID = 64

// tellEnded tells of the call, with what came of it.
func (c *call) tellEnded(o ledger.Outcome, err *Error) {
	tell := c.session.e.cfg.Ended
	if tell == nil {
		return
	}
	x := Ended{
		Method: c.message.Method, Server: ledgerName(c.server), Name: c.tool, Missing: c.missing,
		Session: c.session.id, Revision: c.client.revision,
		Decision: cmp.Or(o.Decision, "allowed"), Rule: c.verdict.rule,
		Began: c.begun, Took: o.Duration, IsError: o.IsError, Trace: c.trace,
	}
	if c.verdict.denied {
		x.Decision = "denied"
	}
	if len(c.message.ID) <= maxRequestID {
		x.RequestID = string(c.message.ID)
	}
	if err != nil {
		x.Code = err.Code
	}
	tell(x)
}
