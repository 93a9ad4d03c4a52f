package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/fs"
	"hutch/mcpd/composite"
	"hutch/mcpd/policy"
)

// composing makes Composites of definitions, whose steps name tools SERVER.TOOL.
func composing(t *testing.T, texts ...string) Composites {
	t.Helper()
	c := Composites{
		Find:  func(tool string) (string, string, bool) { return strings.Cut(tool, ".") },
		Wrong: func(string, error) {},
	}
	for _, text := range texts {
		d, err := composite.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		made, err := composite.Compile(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Tools = append(c.Tools, made)
	}
	return c
}

const twice = `
name: twice
description: Says it at both.
parameters: {type: object, properties: {a: {type: integer}}}
steps:
- {id: x, tool: one.echo, arguments: {a: "{{.params.a}}"}}
- {id: y, tool: two.echo, arguments: {b: "b{{.params.a}}"}, dependsOn: [x]}
output: {properties: {x: {type: string, value: "{{.steps.x.status}}"}, y: {type: integer, value: "{{.params.a}}"}}}
`

// TestComposite calls a tool that is made of two servers' tools, one of which clients
// do not know of: each step is decided, and recorded as a part of the same trace.
func TestComposite(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"), policy.List{Server: "one", Blocked: []string{"big"}})
	st.SetArrange(renaming(map[string]string{"one__echo": "say", "two__echo": ""}))
	g := st.hello(t, 2, `{}`)
	g.ok("tools/list", "")
	st.SetComposites(composing(t, twice, "{name: over, description: d, steps: [{id: x, tool: one.big}]}", "{name: gone, description: d, steps: [{id: x, tool: one.gone}]}",
		"{name: lost, description: d, steps: [{id: x, tool: three.echo}]}", "{name: dies, description: d, timeout: 100ms, steps: [{id: x, tool: one.wait}]}"))
	g.note("notifications/tools/list_changed")
	if list := string(g.ok("tools/list", "")); !strings.Contains(list, `"name":"twice"`) || strings.Contains(list, `two__echo`) {
		t.Errorf("the tools are %s", list)
	}
	if got := string(g.ok("tools/call", `{"name":"twice","arguments":{"a":7}}`)); !strings.Contains(got, `"structuredContent":{"x":"completed","y":7}`) {
		t.Errorf("the result is %s", got)
	}
	for name, want := range map[string]string{
		"over": `tool \"one.big\": MCP request blocked by policy`, "gone": `tool \"one.gone\": there is no such tool`,
		"lost": `tool \"three.echo\": there is no such tool`, "dies": "it takes too long: 100ms are over",
	} {
		if got := string(g.ok("tools/call", `{"name":"`+name+`"}`)); !strings.Contains(got, want) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	g.fails("tools/call", `{"name":"two__echo"}`, jsonrpc.CodeParams, "tool not found")
	var rows []string
	traces := map[any]bool{}
	for _, r := range st.lines(10) {
		if r["method"] == "tools/call" && len(rows) < 3 {
			rows = append(rows, fmt.Sprint(r["server_name"], " ", r["tool_name"], " ", r["decision"], " ", r["outcome"], " ", r["request_preview"]))
			traces[r["trace_id"]] = true
		}
	}
	want := `one say allowed ok {"name":"say","arguments":{"a":"7"}}, two two__echo allowed ok {"name":"two__echo","arguments":{"b":"b7"}}, composite twice allowed ok {"name":"twice","arguments":{"a":7}}`
	if got := strings.Join(rows, ", "); got != want || len(traces) != 1 {
		t.Errorf("records: %s, %d traces", got, len(traces))
	}
	st.SetComposites(Composites{})
	g.fails("tools/call", `{"name":"twice"}`, jsonrpc.CodeParams, "tool not found: twice")
}

const consent = `
name: consent
description: Asks first.
steps:
- {id: ask, type: elicitation, message: "Sure?", onDecline: {action: skip_remaining}}
- {id: say, tool: one.echo, dependsOn: [ask]}
`

// TestCompositeDenied denies a composite tool by each of its names, and allows it by them.
func TestCompositeDenied(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one", "two"))
	st.SetArrange(renaming(nil))
	st.SetComposites(composing(t, twice))
	g := st.hello(t, 2, `{}`)
	for name, denied := range map[string]bool{"twice": true, "composite__twice": true, "composite__*": true, "one__twice": false, "twic": false} {
		for _, c := range []policy.Config{
			{Deny: []string{name}},
			{Capabilities: []policy.Capability{{Name: "c", Tools: []string{name, "one__*", "two__*"}}}},
		} {
			if err := st.Reload(t.Context(), testServers("one", "two"), compiled(t, c)); err != nil {
				t.Fatal(err)
			}
			refused := denied == (c.Deny != nil)
			if got := g.do("tools/call", `{"name":"twice","arguments":{"a":7}}`); (got.Error != nil) != refused {
				t.Errorf("%v: %s, %v", c, got.Result, got.Error)
			}
			if list := string(g.ok("tools/list", "")); strings.Contains(list, `"name":"twice"`) == refused {
				t.Errorf("%v: the tools are %s", c, list)
			}
		}
	}
}

// TestCompositeAsks asks the client's person, or, where the client has no way to, the
// one who answers asks.
func TestCompositeAsks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	answer := policy.Allow
	st := newSite(t, func(c *Config) {
		c.Ask = func(_ context.Context, q Question) policy.Decision {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, q.Decision.Rule+" "+string(q.Event.Args))
			d := q.Decision
			d.Action = answer
			return d
		}
	}, testServers("one"))
	st.SetComposites(composing(t, consent, `{name: wants, description: d, steps: [{id: a, type: elicitation, message: m, schema: {type: object, required: [x]}}]}`,
		"{name: through, description: d, steps: [{id: a, tool: one.elicit}]}"))

	g := st.hello(t, 2, `{"elicitation":{}}`)
	ch := g.send(g.request("tools/call", `{"name":"consent"}`))
	f := <-g.asks
	var q reply
	json.Unmarshal(f.Payload, &q)
	if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), `"message":"Sure?"`) {
		t.Errorf("asked %s", f.Payload)
	}
	f.Payload = []byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"decline"}}`)
	g.w.WriteFrame(f)
	if m := g.wait(ch); !strings.Contains(string(m.Result), `"skipped":true`) {
		t.Errorf("declined: %s %+v", m.Result, m.Error)
	}

	able := offering(`{"elicitation":{}}`)
	newer := st.hello(t, 2, `{}`)
	for _, tool := range []string{"consent", "through"} {
		first := newer.ok("tools/call", `{"name":"`+tool+`",`+able+`}`)
		if !strings.Contains(string(first), `"resultType":"input_required"`) {
			t.Fatalf("%s: %s", tool, first)
		}
		last := string(newer.ok("tools/call", `{"name":"`+tool+`","requestState":`+stateOf(first)+`,"inputResponses":{"1":{"action":"accept","content":{}}},`+able+`}`))
		if strings.Contains(last, `"isError"`) || !strings.Contains(last, `"resultType":"complete"`) {
			t.Errorf("%s: %s", tool, last)
		}
	}

	old := st.hello(t, 2, `{}`)
	if got := string(old.ok("tools/call", `{"name":"consent"}`)); !strings.Contains(got, "echo") {
		t.Errorf("allowed: %s", got)
	}
	if got := string(old.ok("tools/call", `{"name":"wants"}`)); !strings.Contains(got, "does not offer elicitation") {
		t.Errorf("a yes would not do: %s", got)
	}
	mu.Lock()
	answer = policy.Block
	mu.Unlock()
	if got := string(old.ok("tools/call", `{"name":"consent"}`)); !strings.Contains(got, `"skipped":true`) {
		t.Errorf("denied: %s", got)
	}
	if len(asked) != 2 || !strings.HasPrefix(asked[0], `composite.elicitation {"message":"Sure?"`) {
		t.Errorf("asked %v", asked)
	}

	busy := ""
	for range maxMakings + 1 { // those that run wait for the person
		ch := g.send(g.request("tools/call", `{"name":"consent"}`))
		select {
		case m := <-ch:
			busy = m.Error.Message
		case <-g.asks:
		}
	}
	if !strings.Contains(busy, "too many composite tools run at once") {
		t.Errorf("one too many: %s", busy)
	}
	if _, err := st.request(t.Context(), Caller{}, wish{method: "tools/call", member: "name", value: "consent"}); !fs.Is(err, fs.ErrBusy) {
		t.Errorf("one too many of the tree: %v", err)
	}
}
