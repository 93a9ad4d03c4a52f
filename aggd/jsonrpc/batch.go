package jsonrpc

import (
	"bytes"
	"sync"
)

// Batching is the revision of MCP that has batches.
const Batching = "2025-03-26"

// MaxBatch is how many messages a batch of a client may have.
const MaxBatch = 128

// A Batch gathers what answers the requests of an array of messages, which is an
// array too. A nil one stands for a message by itself.
type Batch struct {
	// Keep counts bytes that are kept, and with a negative number that they no
	// longer are. It returns false where there is no room. Nil: there is.
	Keep func(n int) bool

	mu      sync.Mutex // guards what follows
	open    int        // answers that have not come
	answers [][]byte
	size    int // of them, as Keep counted it
}

// Expect has the batch wait for one more answer.
func (b *Batch) Expect() {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open++
	}
}

// Answer adds an answer that was expected, nil for one that will not come, and
// returns the array with the last, if there is anything in it. Without a batch it
// returns the answer.
func (b *Batch) Answer(line []byte) []byte {
	if b == nil {
		return line
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case line == nil:
	case b.Keep == nil || b.Keep(len(line)):
		b.size += len(line)
		b.answers = append(b.answers, bytes.Clone(line))
	default:
		m, _ := Parse(line)
		b.answers = append(b.answers, Response(bytes.Clone(m.ID), nil, Errorf(CodeTooLarge, "the answers of batches are too large together").Raw()))
	}
	if b.open--; b.open > 0 || len(b.answers) == 0 {
		return nil
	}
	if b.Keep != nil {
		b.Keep(-b.size)
	}
	return append(append([]byte("["), bytes.Join(b.answers, []byte(","))...), ']')
}
