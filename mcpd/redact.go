package mcpd

import (
	"bytes"
	"io"
	"sync"

	"hutch/mcpd/ledger"
)

// redact returns a text that a server may have had a part in without the
// secrets that the ledger knows: servers repeat what they were sent.
func (e *Endpoint) redact(text string) string {
	db, err := e.cfg.Ledger()
	if err != nil {
		return ledger.Redact(text)
	}
	return db.Redactor().Redact(text)
}

// alert tells of a security event, whose text has the guest's words in it.
func (e *Endpoint) alert(kind, text string) { e.cfg.Event(kind, e.redact(text)) }

// maxLogLine is the longest line of a log that is redacted as one.
const maxLogLine = 64 << 10

// A lineRedactor passes on a log line by line, redacted.
type lineRedactor struct {
	to     io.Writer
	redact func(string) string

	mu   sync.Mutex // guards line, and held over a write
	line []byte     // whose end is to come
}

func (l *lineRedactor) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, p...)
	n := bytes.LastIndexByte(l.line, '\n') + 1
	if n == 0 && len(l.line) > maxLogLine {
		n = len(l.line)
	}
	err := l.pass(n)
	return len(p), err
}

// flush passes on a line that has no end.
func (l *lineRedactor) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(len(l.line))
}

// pass writes the first n bytes; mu is held.
func (l *lineRedactor) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := io.WriteString(l.to, l.redact(string(l.line[:n])))
	l.line = append(l.line[:0], l.line[n:]...)
	return err
}
