package fs

import "sync"

// A LastErr is the text of a file err: of the last error about something.
// The zero value is an empty file.
type LastErr struct {
	mu   sync.Mutex // guards text
	text string
}

// Set puts the text of err, which is not nil, in the place of the one before.
func (e *LastErr) Set(err error) { e.Say(Text(err)) }

// Say is Set for a text.
func (e *LastErr) Say(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text = text + "\n"
}

// Text returns the line, empty if there was no error.
func (e *LastErr) Text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text
}
