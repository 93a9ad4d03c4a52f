package workload

import "sync"

// A written is a config of which a person writes the text.
type written[C any] struct {
	mu     sync.Mutex // guards what follows, and what else whose it is says
	text   string     // as it was written
	config C          // in force
	bad    error      // why text does not count; nil: it does
}

// Config returns the config that is in force; of a server of which nothing was said yet
// there is none.
func (w *written[C]) Config() C {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.config
}

// ConfigText returns the config as it was last written.
func (w *written[C]) ConfigText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text
}

// ConfigErr says why the config as it was last written does not count.
func (w *written[C]) ConfigErr() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bad
}
