package alone

import (
	"fmt"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
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

// With Safe, names that not every client takes are others, also for who calls before
// there was a list; the others stay.
func TestSafeNames(t *testing.T) {
	long := strings.Repeat("n", 70)
	c := open(t, Config{Safe: true, Separator: "__"}, `{"my key": `+server(t, "well", `{"name":"text"},{"name":"`+long+`"}`)+`,"k":`+server(t, "well", `{"name":"text"}`)+`}`)
	name := jsonrpc.SafeName("my key__"+long, internal("my key"), long, true)
	if got := c.ask("1", "tools/call", `{"name":"`+name+`"}`); !strings.Contains(got, `"params":{"name":"`+long+`"}`) {
		t.Error(got)
	}
	list := c.ask("2", "tools/list", "{}")
	for _, want := range []string{`"name":"` + name + `"`, `"name":"k__text"`, `"name":"my_key__text_`} {
		if !strings.Contains(list, want) || len(name) != jsonrpc.MaxClientName {
			t.Errorf("no %s in %s", want, list)
		}
	}
	if got := c.ask("3", "tools/call", `{"name":"k__none"}`); !strings.Contains(got, "Tool not found: k__none") {
		t.Error(got)
	}
}
