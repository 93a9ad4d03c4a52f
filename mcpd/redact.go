package mcpd

import (
	"encoding/json"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/redact"
)

// redact returns a text that a server may have had a part in without the
// secrets that the ledger knows: servers repeat what they were sent.
func (e *Endpoint) redact(text string) string { return e.redactor().Redact(text) }

// preview is redact for the beginning of a text, max bytes.
func (e *Endpoint) preview(text string, max int) string {
	return e.redactor().PreviewString(text, max)
}

func (e *Endpoint) redactor() *redact.Redactor {
	db, err := e.cfg.Ledger()
	if err != nil {
		return new(redact.Redactor)
	}
	return db.Redactor()
}

// hide returns what a server says as the client may have it.
func (e *Endpoint) hide(value json.RawMessage) (json.RawMessage, *Error) {
	if e.cfg.Hide == nil || len(value) == 0 {
		return value, nil
	}
	left, ok := e.cfg.Hide(value)
	if !ok {
		return nil, failure(jsonrpc.CodeInternal, "the server says a secret that cannot be told from the rest: it is withheld")
	}
	return left, nil
}

// An Alert is a security event.
type Alert struct {
	Kind, Text string
	Rule       string // that it is by; "": none
	Trace      string // the id of that which brought it about; "": none
}

// alert tells of a security event, whose text has the guest's words in it.
func (e *Endpoint) alert(kind, rule, trace, text string) {
	e.cfg.Event(Alert{Kind: kind, Text: e.redact(text), Rule: rule, Trace: trace})
}
