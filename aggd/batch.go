package aggd

import (
	"bytes"
	"fmt"
	"sync"

	"hutch/aggd/rawjson"
)

// maxBatch is how many messages a batch of a server may have.
const maxBatch = 1024

// A batch is an array of messages that a server sent, as revision 2025-03-26 has
// them. What answers the requests in it is an array too.
type batch struct {
	c *conn

	mu      sync.Mutex // guards what follows
	open    int        // requests without an answer; 1 more while it is read
	answers [][]byte
}

// receiveBatch takes the messages of a batch.
func (c *conn) receiveBatch(line []byte, from *call) {
	elements := rawjson.Elements(line)
	if len(elements) > maxBatch {
		c.noise(line, fmt.Errorf("a batch of %d messages: at most %d", len(elements), maxBatch))
		return
	}
	b := &batch{c: c, open: 1}
	for _, element := range elements {
		c.handle(element, from, b)
	}
	b.answer(nil)
}

// expect counts a request that will be answered.
func (b *batch) expect() {
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open++
	}
}

// answer adds the answer to a request, nil for one that the server gave up, and
// sends them all with the last.
func (b *batch) answer(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if line != nil {
		b.answers = append(b.answers, line)
	}
	if b.open--; b.open > 0 || len(b.answers) == 0 {
		return
	}
	b.c.answer(append(append([]byte("["), bytes.Join(b.answers, []byte(","))...), ']'))
}
