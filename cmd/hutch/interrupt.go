package main

import (
	"bytes"
	"sync"
	"time"
)

// interrupts counts those in a row that the command does nothing about, and
// ends the session at the third. A signal always counts. On a terminal, where
// Ctrl-C is a key like others, it does not once another key follows, nor if
// the command answers it with more than its echo, as a shell does with a
// prompt.
type interrupts struct {
	end func()
	now func() time.Time

	mu       sync.Mutex // guards what follows
	count    int
	last     time.Time
	answered bool // the last
}

const (
	lastInterrupt = 3
	keyHeld       = 200 * time.Millisecond // a Ctrl-C so soon after another is one that is held down
)

// signal counts a signal.
func (i *interrupts) signal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.add()
}

func (i *interrupts) add() {
	if i.count++; i.count == lastInterrupt {
		i.end()
	}
}

// typed looks for Ctrl-C among what goes to the command's terminal.
func (i *interrupts) typed(p []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, b := range p {
		if b == 0x03 {
			i.pressed()
		} else {
			i.count = 0
		}
	}
}

func (i *interrupts) pressed() {
	now := i.now()
	if i.count > 0 && i.answered {
		i.count--
	}
	if i.count > 0 && now.Sub(i.last) < keyHeld {
		return
	}
	i.last, i.answered = now, false
	i.add()
}

// printed takes what comes from the command's terminal for an answer.
func (i *interrupts) printed(p []byte) {
	if len(bytes.Trim(p, "^C\r\n")) > 0 {
		i.mu.Lock()
		i.answered = true
		i.mu.Unlock()
	}
}

// A witness is a writer that sees what is written.
type witness func(p []byte)

func (see witness) Write(p []byte) (int, error) {
	see(p)
	return len(p), nil
}
