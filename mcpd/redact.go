package mcpd

import "hutch/mcpd/redact"

// redact returns a text that a server may have had a part in without the
// secrets that the ledger knows: servers repeat what they were sent.
func (e *Endpoint) redact(text string) string {
	db, err := e.cfg.Ledger()
	if err != nil {
		return new(redact.Redactor).Redact(text)
	}
	return db.Redactor().Redact(text)
}

// alert tells of a security event, by a rule or none, whose text has the guest's
// words in it.
func (e *Endpoint) alert(kind, rule, text string) { e.cfg.Event(kind, rule, e.redact(text)) }
