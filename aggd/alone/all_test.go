package alone

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/rawjson"
)

// TestAll has resources, prompts, completions and the news of changes.
func TestAll(t *testing.T) {
	c := open(t, Config{All: true}, `{"k": `+server(t, "well", `{"name":"changes"},{"name":"updates"}`)+`,"l":`+server(t, "well", "")+`}`)
	for _, s := range []struct{ method, params, want string }{
		{"initialize", `{"protocolVersion":"2025-11-25"}`, `"capabilities":` + whole},
		{"resources/list", `{}`, `{"resources":[{"uri":"k:file:///a","name":"a","x":1},{"uri":"l:file:///a","name":"a","x":1}]}`},
		{"resources/templates/list", `{}`, `{"resourceTemplates":[{"uriTemplate":"k:file:///{x}","name":"t"},{"uriTemplate":"l:file:///{x}","name":"t"}]}`},
		{"prompts/list", `{}`, `{"prompts":[{"name":"k:greet"},{"name":"l:greet"}]}`},
		{"resources/read", `{"uri":"l:file:///b"}`, `"params":{"uri":"file:///b"}`},
		{"resources/subscribe", `{"uri":"l:file:///b"}`, `{"method":"resources/subscribe","params":{"uri":"file:///b"}`},
		{"prompts/get", `{"name":"k:greet","arguments":{"a":1}}`, `"params":{"name":"greet","arguments":{"a":1}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"k:greet"},"argument":{}}`, `"params":{"ref":{"type":"ref/prompt","name":"greet"},"argument":{}}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"l:file:///{x}"}}`, `"params":{"ref":{"type":"ref/resource","uri":"file:///{x}"}}`},
		{"prompts/get", `{"name":"greet"}`, `"code":-32602,"message":"Prompt name must be prefixed with server key: greet"`},
		{"prompts/get", `{"name":"z:greet"}`, `"code":-32602,"message":"Prompt not found: z:greet"`},
		{"resources/read", `{"uri":"z:greet"}`, `"code":-32002,"message":"Resource not found: z:greet"`},
	} {
		if got := c.ask("1", s.method, s.params); !strings.Contains(got, s.want) {
			t.Errorf("%s %s: %s", s.method, s.params, got)
		}
	}
	if got := c.ask("1", "logging/setLevel", `{"level":"loud"}`); !strings.Contains(got, `"code":-32602,`) {
		t.Error(got)
	}
	c.put(`{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"debug"}}`)
	for range 2 {
		if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info", "data":{"level":"debug"}}}` {
			t.Error(got)
		}
	}
	c.next()
	c.put(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"k:updates"}}`)
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"k:file:///a"}}` {
		t.Error(got)
	}
	c.next()
	c.put(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"k:changes"}}`)
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Error(got)
	}
}

// TestLate has a server that comes late be told of with All, and be callable.
func TestLate(t *testing.T) {
	gate := make(chan bool)
	var once sync.Once
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-gate
		body, _ := io.ReadAll(r.Body)
		if rawjson.Get(body, "id") == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,`, rawjson.Get(body, "id"))
		switch rawjson.GetString(body, "method") {
		case "initialize":
			fmt.Fprint(w, `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}`)
		case "tools/list":
			fmt.Fprint(w, `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}`)
		case "tools/call":
			fmt.Fprintf(w, `"result":{"header":%q}}`, r.Header.Get("X-Key"))
		default:
			fmt.Fprint(w, `"error":{"code":-32601,"message":"no"}}`)
		}
	}))
	defer s.Close()
	defer once.Do(func() { close(gate) })
	c := open(t, Config{All: true, ListWait: 100 * time.Millisecond}, `{"h":{"type":"http","url":"`+s.URL+`","headers":{"X-Key":"secret"}},"k":`+server(t, "well", `{"name":"text"}`)+`}`)
	for !strings.Contains(c.ask("1", "tools/list", "{}"), `{"name":"k:text",`) {
	}
	once.Do(func() { close(gate) })
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Error(got)
	}
	if got := c.ask("2", "tools/list", "{}"); !strings.Contains(got, `{"name":"h:x",`) {
		t.Error(got)
	}
	if got := c.call("h:x"); got != `"result":{"header":"secret"}` {
		t.Error(got)
	}
}
