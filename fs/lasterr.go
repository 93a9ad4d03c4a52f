package fs

import (
	"strings"
	"sync"
)

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
	e.text = oneLine(text) + "\n"
}

// Mended says that what err tells of is so no more: it goes, if it is the last. A nil
// err is none.
func (e *LastErr) Mended(err error) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.text == oneLine(Text(err))+"\n" {
		e.text = ""
	}
}

// Text returns the line, empty if there was no error.
func (e *LastErr) Text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text
}

// A Told is an error with the text that the service keeps of it.
type Told struct {
	Text string
	Err  error
}

func (e *Told) Error() string { return e.Text }
func (e *Told) Unwrap() error { return e.Err }

// SaysMore says whether a text of the service is of err, and says more than its
// kind.
func SaysMore(text string, err error) bool {
	kind, _, _ := strings.Cut(Text(err), ":")
	return strings.HasPrefix(text, kind+": ")
}
