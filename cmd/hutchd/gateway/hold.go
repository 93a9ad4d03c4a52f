package gateway

import "sync"

// A Held is what a sandbox, an exec, a session and a connection have in common: clients
// keep them, and with them whose they are.
type Held struct {
	Keep   func() (done func()) // keeps whose it is; nil: that stays anyway
	Unheld func()               // what is to be done when the last of them has let go; nil: nothing

	mu      sync.Mutex // guards holders
	holders int        // clients that keep it
}

// Hold keeps the object, if it is anonymous, and whose it is, until done is called.
func (h *Held) Hold() (done func()) {
	release := func() {}
	if h.Keep != nil {
		release = h.Keep()
	}
	h.mu.Lock()
	h.holders++
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		h.holders--
		last := h.holders == 0
		h.mu.Unlock()
		if last && h.Unheld != nil {
			h.Unheld()
		}
		release()
	}
}
