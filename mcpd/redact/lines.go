package redact

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is what is passed on of a line that is too long, and maxKept what is kept of
// one until it ends: enough to know a secret that begins in what is passed on.
const (
	maxLine = 64 << 10
	maxKept = 5 * maxLine
)

// Lines is a Writer that passes on a log line by line, redacted.
type Lines struct {
	To       io.Writer
	Redactor func() *Redactor

	mu   sync.Mutex // guards line, and held over a write
	line []byte     // whose end is to come
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := bytes.LastIndexByte(p, '\n') + 1
	var err error
	if ended > 0 {
		lines := p[:ended]
		if len(l.line) == maxKept { // what came after that is lost
			lines = lines[bytes.IndexByte(lines, '\n')+1:]
			l.line = append([]byte(l.Redactor().PreviewString(string(l.line), maxLine)), '\n')
		}
		l.line = append(l.line, lines...)
		err = l.pass(l.Redactor().Redact(string(l.line)))
	}
	rest := p[ended:]
	l.line = append(l.line, rest[:min(len(rest), maxKept-len(l.line))]...)
	return len(p), err
}

// Flush passes on a line that has no end.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	red := l.Redactor()
	if len(l.line) < maxKept {
		l.pass(red.Redact(string(l.line)))
	} else {
		l.pass(red.PreviewString(string(l.line), maxLine))
	}
}

// pass writes what there is, of which it is given the redacted text; mu is held.
func (l *Lines) pass(text string) error {
	l.line = l.line[:0]
	if text == "" {
		return nil
	}
	_, err := io.WriteString(l.To, text)
	return err
}
