package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// A lastLine is the last line of a terminal, where our standard error is one: it says how
// far something is. What is written to it stands above.
type lastLine struct {
	mu    sync.Mutex // guards what follows
	drawn string
}

// until does what takes long, and meanwhile draws what say says of it. It does not wait
// for it where ctx ends.
func (l *lastLine) until(ctx context.Context, say func() string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	var tick <-chan time.Time
	if term.IsTerminal(2) {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		defer l.draw("")
		tick = ticker.C
	}
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			l.draw(say())
		}
	}
}

// since returns a say for until that tells how long it has taken.
func since(what string) func() string {
	began := time.Now()
	return func() string { return fmt.Sprintf("%s … %.0fs", what, time.Since(began).Seconds()) }
}

func (l *lastLine) draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn != "" || text != "" {
		columns, _, err := term.GetSize(2)
		if err == nil && columns > 1 {
			text = cut(text, columns-1)
		}
		fmt.Fprint(os.Stderr, "\r\x1b[K", text)
	}
	l.drawn = text
}

// Write prints whole lines above the line.
func (l *lastLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn == "" {
		return os.Stderr.Write(p)
	}
	_, err := fmt.Fprintf(os.Stderr, "\r\x1b[K%s%s", p, l.drawn)
	return len(p), err
}
