package tree

import (
	"sync"

	"hutch/fs"
)

// lastErr remembers the text of the last error about something.
type lastErr struct {
	mu   sync.Mutex // guards text
	text string
}

func (e *lastErr) set(err error) { e.say(fs.Text(err)) }

func (e *lastErr) say(text string) {
	e.mu.Lock()
	e.text = text + "\n"
	e.mu.Unlock()
}

func (e *lastErr) get() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text
}

// failed is told every error that a client gets from a row.
func failed(a at, err error) {
	a.s.err.set(err)
	a.s.count.errors.Add(1)
	if a.vm != nil {
		a.vm.err.set(err)
	}
}

func rootErr(c call) (string, error) { return c.At.s.err.get(), nil }

// vmErr tells the last error that a client got, or what was found wrong with
// the VM before any client asked.
func vmErr(c call) (string, error) {
	text := c.At.vm.err.get()
	if err := c.At.vm.Err(); text == "" && err != nil {
		text = fs.Text(err) + "\n"
	}
	return text, nil
}
