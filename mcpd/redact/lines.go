package redact

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is the longest line that is redacted as one.
const maxLine = 64 << 10

// Lines is a Writer that passes on a log line by line, redacted.
type Lines struct {
	To     io.Writer
	Redact func(string) string

	mu   sync.Mutex // guards line, and held over a write
	line []byte     // whose end is to come
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, p...)
	n := bytes.LastIndexByte(l.line, '\n') + 1
	if n == 0 && len(l.line) > maxLine {
		n = len(l.line)
	}
	return len(p), l.pass(n)
}

// Flush passes on a line that has no end.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(len(l.line))
}

// pass writes the first n bytes; mu is held.
func (l *Lines) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := io.WriteString(l.To, l.Redact(string(l.line[:n])))
	l.line = append(l.line[:0], l.line[n:]...)
	return err
}
