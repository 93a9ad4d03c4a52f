package alone

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// TestBytes has what children answer come as it was sent.
func TestBytes(t *testing.T) {
	odd := `{ "x-new":{"b":1,"a":2}, "name":"odd","inputSchema":{"type":"object","$defs":{"a":{"const":12345678901234567890}}},  "description":"<&> \u00e4" }`
	c := open(t, Config{}, `{"k": `+server(t, "well", odd+`,{"name":"oddError"}`)+`}`)
	if got, want := c.ask("1", "tools/list", "{}"), strings.Replace(odd, `"odd"`, `"k:odd"`, 1); !strings.Contains(got, want) {
		t.Errorf("%s has not %s", got, want)
	}
	for _, name := range []string{"odd", "oddError"} {
		if got := c.call("k:" + name); got != answers[name] {
			t.Errorf("%s: %s", name, got)
		}
	}
	c.put(`{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"arguments":{"n":12345678901234567890,  "s":"\u00e4"} ,"name":"k:odd","_meta":{"x":1.50}}}`)
	if got := c.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":12345678901234567890,"result":{  "content"`) {
		t.Error(got)
	}
}

// TestKeys has servers with keys of any characters.
func TestKeys(t *testing.T) {
	keys := []string{"a", "a:b", "a:", ":", "", "my server", "ü.é_x", "x__y", "%", "builtin", "local", "/etc/passwd", "new\nline", `quote"`, "日本", "\u202e"}
	var entries []string
	for _, key := range keys {
		entries = append(entries, fmt.Sprintf("%s:%s", rawjson.Quote(key), server(t, "well", `{"name":"b:t"},{"name":"t"},{"name":"`+strings.Repeat("x", 3)+`"}`)))
	}
	c := open(t, Config{}, "{"+strings.Join(entries, ",")+"}")
	pids := make(map[string]string)
	for _, key := range keys {
		got := c.call(key + ":xxx")
		if pid := string(rawjson.Get([]byte("{"+got+"}"), "result", "pid")); pid == "" || pids[pid] != "" {
			t.Errorf("%q: %s, as %q", key, got, pids[pid])
		} else {
			pids[pid] = key
		}
	}
	if got := string(rawjson.Get([]byte("{"+c.call("a:b:t")+"}"), "result", "pid")); pids[got] != "a:b" {
		t.Errorf("a:b:t is %q's", pids[got])
	}
	if n := strings.Count(c.ask("1", "tools/list", "{}"), `"name":"a:b:t"`); n != 1 {
		t.Errorf("a:b:t is there %d times", n)
	}
}

// TestHostileChildren has one server of each bad kind beside a good one.
func TestHostileChildren(t *testing.T) {
	tools := `{"name":"text"},{"name":"dies"},{"name":"long"}`
	c := open(t, Config{ListWait: 5 * time.Second}, `{
		"exits": `+server(t, "exits", "")+`,
		"silent": `+server(t, "silent", "")+`,
		"garbage": `+server(t, "garbage", `{"name":"text"},7,{"name":7},{"nom":"x"},{"name":""}`)+`,
		"endless": `+server(t, "endless", "")+`,
		"floods": `+server(t, "floods", `{"name":"x"}`)+`,
		"missing": {"command":"/no/such/program"},
		"broken": {"command":7},
		"unset": {"command":"x","env":{"A":"${NO_SUCH_VARIABLE}"}},
		"good": `+server(t, "well", tools)+`}`)
	began := time.Now()
	if got := c.call("good:text"); got != answers["text"] || time.Since(began) > 4*time.Second {
		t.Errorf("after %v: %s", time.Since(began), got)
	}
	list := c.ask("1", "tools/list", "{}")
	for _, name := range []string{"good:text", "garbage:text", "floods:x"} {
		if !strings.Contains(list, `{"name":"`+name+`"}`) {
			t.Errorf("no %s in %s", name, list)
		}
	}
	c.put(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"floods:x"}}`)
	for _, s := range []struct{ name, want string }{
		{"good:text", answers["text"]},
		{"garbage:text", answers["text"]},
		{"exits:x", `"error":{"code":-32603,"message":"server exits is not connected: `},
		{"missing:x", `"error":{"code":-32603,"message":"server missing is not connected: start: there is no program /no/such/program"}`},
		{"broken:x", `"error":{"code":-32603,"message":"server broken is not connected: \"command\" takes no number"}`},
		{"unset:x", `"message":"server unset is not connected: env A: the variable NO_SUCH_VARIABLE is not set`},
		{"good:long", `"error":{"code":-32603,"message":"the answer of the server: message of 17`},
		{"good:dies", `"error":{"code":-32603,"message":"the server died (exit status 4)`},
		{"good:text", answers["text"]},
	} {
		began := time.Now()
		c.put(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"` + s.name + `"}}`)
		got := c.next()
		if d := time.Since(began); s.name == "good:text" && d > time.Second {
			t.Errorf("it took %v", d)
		}
		if strings.Contains(got, `"id":5,`) {
			got = c.next()
		}
		if !strings.Contains(got, s.want) {
			t.Errorf("%s: %s", s.name, got)
		}
	}
}

// TestHostileClient has a client say what no client should.
func TestHostileClient(t *testing.T) {
	c := open(t, Config{Limits: wire.Limits{MaxRequest: 2 << 20}}, `{"k": `+server(t, "well", `{"name":"text"},{"name":"hangs"}`)+`}`)
	c.call("k:text")
	for _, s := range []struct{ line, want string }{
		{"garbage", `"id":null,"error":{"code":-32700,`},
		{"\x00\xff", `"code":-32700,`},
		{`[]`, `"code":-32600,`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"code":-32600,`},
		{`7`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"method":""}`, `"code":-32600,`},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, `"id":1,"error":{"code":-32601,"message":"Method not found: x"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"hutch/lost"}`, `"code":-32601,`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":":"}}`, `"code":-32601,"message":"Tool not found: :"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:"}}`, `"code":-32601,"message":"Tool not found: k:"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, `"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, `"code":-32700,`},
		{`{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":"` + strings.Repeat("x", 3<<20) + `"}}`, `"id":8,"error":{"code":-32600,"message":"invalid request: message of`},
	} {
		c.put(s.line)
		if got := c.next(); !strings.Contains(got, s.want) {
			t.Errorf("%.80s: %s", s.line, got)
		}
	}
	for _, line := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, `{"jsonrpc":"2.0","method":"x"}`} {
		c.put(line) // which nothing answers
	}
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:hangs"}}`)
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:text"}}`)
	if got := c.next(); !strings.Contains(got, `"code":-32600,"message":"invalid request: the id 1 is of a request under way"`) {
		t.Error(got)
	}
	for i := range maxInFlight {
		c.put(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"k:hangs"}}`, i+2))
	}
	if got := c.next(); !strings.Contains(got, `"code":-32005`) {
		t.Error(got)
	}
}

// TestUnread has a client that says much and reads nothing: it is read no further
// than answers can be written, and the end comes all the same.
func TestUnread(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fromClient, in := io.Pipe()
	_, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, Config{Aggregator: self, Log: io.Discard}, fromClient, toClient) }()
	for range 2 { // the second is read once the answer to the first is
		go io.WriteString(in, strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 10_000))
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	fromClient.Close()
}

// TestCancel has the client give up a call: its server is told, and nothing is
// answered.
func TestCancel(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "well", `{"name":"text"},{"name":"hangs"}`)+`}`)
	c.put(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"k:hangs"}}`)
	c.log.await(t, "k: hangs")
	c.put(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"no"}}`)
	c.log.await(t, "k: told: cancelled")
	if got := c.ask(`"y"`, "ping", "{}"); got != `{"jsonrpc":"2.0","id":"y","result":{}}` {
		t.Error(got)
	}
}

// TestProgress has progress come with the client's token, before the answer.
func TestProgress(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "well", `{"name":"steps"}`)+`}`)
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:steps","_meta":{"progressToken":"mine"}}}`)
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1, "x":2}}` {
		t.Error(got)
	}
	if got := c.next(); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Error(got)
	}
}

// TestParallel has calls go on while others hang.
func TestParallel(t *testing.T) {
	c := open(t, Config{}, `{"a": `+server(t, "well", `{"name":"text"},{"name":"hangs"}`)+`,"b":`+server(t, "well", `{"name":"text"}`)+`}`)
	c.put(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"a:hangs"}}`)
	for i := range 200 {
		c.put(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%c:text"}}`, i+1, 'a'+i%2))
	}
	seen := make(map[string]bool)
	for range 200 {
		line := c.next()
		id := string(rawjson.Get([]byte(line), "id"))
		if seen[id] || !strings.Contains(line, answers["text"]) {
			t.Fatal(line)
		}
		seen[id] = true
	}
}

// TestBatch has batches answered as a whole, for clients of the revision that has them.
func TestBatch(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "well", `{"name":"text"},{"name":"hangs"}`)+`}`)
	c.ask("1", "initialize", `{"protocolVersion":"2025-03-26"}`)
	c.put(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:text"}}, {"jsonrpc":"2.0","method":"notifications/initialized"}, 7, {"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	got := c.next()
	for _, want := range []string{`{"jsonrpc":"2.0","id":1,` + answers["text"] + `}`, `{"jsonrpc":"2.0","id":2,"result":{}}`, `"id":null,"error":{"code":-32600,`} {
		if got[0] != '[' || !strings.Contains(got, want) {
			t.Errorf("%s has not %s", got, want)
		}
	}
	c.put(`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:hangs"}},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	c.log.await(t, "k: hangs")
	c.put(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if got := c.next(); got != `[{"jsonrpc":"2.0","id":2,"result":{}}]` {
		t.Error(got)
	}
	c.put(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`) // which nothing answers
	for _, bad := range []string{`[]`, `[1`, `[` + strings.Repeat("1,", 200) + `1]`} {
		c.put(bad)
		if got := c.next(); !strings.Contains(got, `"id":null,"error":{"code":-32600,`) {
			t.Errorf("%s: %s", bad, got)
		}
	}
}

// TestEnd has the end of the input end everything within 2 s, though programs go on
// after the end of theirs, and a call hangs.
func TestEnd(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "stubborn", `{"name":"hangs"},{"name":"text"}`)+`}`)
	c.call("k:text")
	c.put(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"k:hangs"}}`)
	c.log.await(t, "k: hangs")
	c.put(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"k:text"}}`)
	began := time.Now()
	c.in.Close()
	if got := c.next(); !strings.Contains(got, `"id":2,"result"`) {
		t.Error(got)
	}
	select {
	case err := <-c.ended:
		c.ended <- err
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

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
			fmt.Fprint(w, `"result":{"tools":[{"name":"x"}]}}`)
		case "tools/call":
			fmt.Fprintf(w, `"result":{"header":%q}}`, r.Header.Get("X-Key"))
		default:
			fmt.Fprint(w, `"error":{"code":-32601,"message":"no"}}`)
		}
	}))
	defer s.Close()
	defer once.Do(func() { close(gate) })
	c := open(t, Config{All: true, ListWait: 100 * time.Millisecond}, `{"h":{"type":"http","url":"`+s.URL+`","headers":{"X-Key":"secret"}},"k":`+server(t, "well", `{"name":"text"}`)+`}`)
	for !strings.Contains(c.ask("1", "tools/list", "{}"), `{"name":"k:text"}`) {
	}
	once.Do(func() { close(gate) })
	if got := c.next(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Error(got)
	}
	if got := c.ask("2", "tools/list", "{}"); !strings.Contains(got, `{"name":"h:x"}`) {
		t.Error(got)
	}
	if got := c.call("h:x"); got != `"result":{"header":"secret"}` {
		t.Error(got)
	}
}

// TestAgain has a server that died be there again without being asked for.
func TestAgain(t *testing.T) {
	c := open(t, Config{}, `{"k": `+server(t, "well", `{"name":"dies"},{"name":"text"}`)+`}`)
	for range 3 {
		if got := c.call("k:dies"); !strings.Contains(got, "the server died (exit status 4)") {
			t.Error(got)
		}
		if got := c.call("k:text"); got != answers["text"] {
			t.Error(got)
		}
	}
}
