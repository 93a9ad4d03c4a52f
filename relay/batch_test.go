package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/mcpd/frame"
)

// beginOf makes the two sides agree on a revision.
func beginOf(c *client, revision string) *host {
	c.t.Helper()
	c.say(initialize)
	h := c.accept()
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":%q}}`, revision)
	h.say(h.want(0, initialize).Stream, 0, answer)
	c.want(answer)
	return h
}

// TestBatch has a batch go to the host in parts, and their answers come back as
// one: in the order of the answers, whatever comes between.
func TestBatch(t *testing.T) {
	c := newClient(t, "2")
	h := beginOf(c, "2025-03-26")
	h.say(7, frame.FromHost, `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	c.want(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
	c.say(` [{"jsonrpc":"2.0","id":3,"method":"initialize"},{"jsonrpc":"2.0","id":1,"method":"a","params":[1e400]}, {"jsonrpc":"2.0","method":"notifications/initialized"},` +
		`{"jsonrpc":"2.0","id":"q","result":{}},7,{"jsonrpc":"2.0","id":"two","method":"b"}]`)
	a := h.want(0, `{"jsonrpc":"2.0","id":1,"method":"a","params":[1e400]}`)
	h.want(frame.Notification, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.want(frame.FromHost, `{"jsonrpc":"2.0","id":"q","result":{}}`)
	seven := h.want(0, `7`)
	b := h.want(0, `{"jsonrpc":"2.0","id":"two","method":"b"}`)
	h.say(b.Stream, 0, `{"jsonrpc":"2.0","id":"two","result":"<B>"}`)
	h.say(b.Stream, 0, `{"jsonrpc":"2.0","id":"two","result":"twice"}`)
	h.say(0, frame.Notification, `{"jsonrpc":"2.0","method":"between"}`)
	c.want(`{"jsonrpc":"2.0","method":"between"}`)
	h.say(seven.Stream, 0, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
	h.say(a.Stream, 0, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	c.want(`[{"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"invalid request: initialize stands in no batch"}},` +
		`{"jsonrpc":"2.0","id":"two","result":"<B>"},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}},{"jsonrpc":"2.0","id":1,"result":{}}]`)

	// none that is to be answered
	c.say(`[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}]`)
	h.want(frame.Notification, `{"jsonrpc":"2.0","method":"x"}`)
	h.want(frame.Notification, `{"jsonrpc":"2.0","method":"y"}`)

	// one that the client gives up, which the host does not answer
	c.say(`[{"jsonrpc":"2.0","id":5,"method":"a"},{"jsonrpc":"2.0","id":6,"method":"b"}]`)
	h.want(0, `{"jsonrpc":"2.0","id":5,"method":"a"}`)
	six := h.want(0, `{"jsonrpc":"2.0","id":6,"method":"b"}`)
	h.say(six.Stream, 0, `{"jsonrpc":"2.0","id":6,"result":6}`)
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`
	c.say(cancel)
	c.want(`[{"jsonrpc":"2.0","id":6,"result":6}]`)
	h.want(frame.Notification, cancel)

	// what is no batch that there may be
	c.say(`[]`)
	c.wantError(`null`, -32600)
	c.say(`[` + strings.Repeat(`{},`, 128) + `{}]`)
	c.wantError(`null`, -32600)
	c.say(`[1,`) // for the host to refuse
	h.say(h.want(0, `[1,`).Stream, 0, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`)
	c.wantError(`null`, -32700)

	// the connection is lost
	c.say(`[{"jsonrpc":"2.0","id":8,"method":"a"},{"jsonrpc":"2.0","id":9,"method":"b"}]`)
	h.want(0, `{"jsonrpc":"2.0","id":8,"method":"a"}`)
	nine := h.want(0, `{"jsonrpc":"2.0","id":9,"method":"b"}`)
	h.say(nine.Stream, 0, `{"jsonrpc":"2.0","id":9,"result":9}`)
	h.say(0, frame.Notification, `{"jsonrpc":"2.0","method":"sync"}`)
	c.want(`{"jsonrpc":"2.0","method":"sync"}`)
	h.conn.Close()
	c.want(`[{"jsonrpc":"2.0","id":9,"result":9},{"jsonrpc":"2.0","id":8,"error":{"code":-32001,"message":"connection to the host lost"}}]`)
}

// TestBatchElsewhere has the host refuse batches where another revision was agreed on.
func TestBatchElsewhere(t *testing.T) {
	c := newClient(t, "2")
	h := beginOf(c, "2025-06-18")
	const line = `[{"jsonrpc":"2.0","id":1,"method":"a"}]`
	c.say(line)
	h.say(h.want(0, line).Stream, 0, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
	c.want(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`)
}

// TestBatchTooLarge keeps no more of the answers of batches than of one message.
func TestBatchTooLarge(t *testing.T) {
	c := newClient(t, "2")
	h := beginOf(c, "2025-03-26")
	c.say(`[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"},{"jsonrpc":"2.0","id":3,"method":"c"}]`)
	large := `"` + strings.Repeat("x", 40<<20) + `"`
	for id := 1; id <= 3; id++ {
		f, err := h.in.Next()
		if err != nil {
			t.Fatal(err)
		}
		result := large
		if id == 3 {
			result = "3"
		}
		h.say(f.Stream, 0, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	answers := rawjson.Elements(line)
	if len(answers) != 3 || string(rawjson.Get(answers[1], "error", "code")) != "-32006" || string(rawjson.Get(answers[2], "result")) != "3" {
		t.Errorf("%d answers, %.200s", len(answers), answers[len(answers)-1])
	}
	c.say(`[{"jsonrpc":"2.0","id":4,"method":"d"}]`) // there is room again
	h.say(h.want(0, `{"jsonrpc":"2.0","id":4,"method":"d"}`).Stream, 0, `{"jsonrpc":"2.0","id":4,"result":`+large+`}`)
	if line, err = c.out.ReadBytes('\n'); err != nil || len(line) < 40<<20 {
		t.Errorf("%.100s, %v", line, err)
	}
}
