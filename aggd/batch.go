package aggd

import (
	"fmt"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
)

// maxBatch is how many messages a batch of a server may have.
const maxBatch = 1024

// receiveBatch takes an array of messages, as revision 2025-03-26 has them. What
// answers the requests in it is an array too.
func (c *conn) receiveBatch(line []byte, from *call) {
	elements := rawjson.Elements(line)
	if len(elements) > maxBatch {
		c.noise(line, fmt.Errorf("a batch of %d messages: at most %d", len(elements), maxBatch))
		return
	}
	b := new(jsonrpc.Batch)
	b.Expect() // what is no request: that it is read
	for _, element := range elements {
		c.handle(element, from, b)
	}
	if whole := b.Answer(nil); whole != nil {
		c.answer(whole)
	}
}
