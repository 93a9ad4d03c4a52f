package policy

import (
	"regexp"
	"strings"
	"testing"
)

// What decided is counted, what is only tried is not, and another endpoint
// begins anew.
func TestHits(t *testing.T) {
	p, err := New(Config{Rules: []Rule{
		{ID: "r", Layer: "user", On: OnRequest, If: `mcp.request.tool_name == "a"`, Decision: Block, Priority: 7},
		{ID: "s", Layer: "user", On: OnRequest, If: `mcp.request.arguments.x == 1`, Decision: Block, Priority: 8, Server: "s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"a", "a", "b"} {
		p.Decide(&Event{On: OnRequest, Tool: tool})
		p.Decide(&Event{On: OnRequest, Tool: tool, Trial: true})
		p.Decide(&Event{On: OnRequest, Tool: tool, Listing: true})
	}
	p.Decide(&Event{On: OnRequest, Server: "s"}) // whose condition cannot be found out
	want := regexp.MustCompile(`^unregistered block
r block if 'mcp.request.tool_name == "a"' # layer user priority 7 hits 2 last \S+Z on mcp.request
s block if 'mcp.request.arguments.x == 1' # layer user priority 8 hits 1 last \S+Z on mcp.request server s
default allow # hits 1 last \S+Z
$`)
	if got := p.Text(); !want.MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	if got := p.Use(p).Text(); strings.Contains(got, "hits") {
		t.Errorf("got\n%s", got)
	}
}

// A tool is listed if a call of it could pass, whatever its arguments.
func TestListing(t *testing.T) {
	for decision, want := range map[string]string{Allow: Allow, Ask: Allow, Block: Block, Rewrite: Block} {
		r := Rule{ID: "r", On: OnRequest, If: `mcp.request.arguments.path.startsWith("/tmp/")`, Decision: decision, Priority: 7}
		if decision == Rewrite {
			r.Remove = []string{"path"}
		}
		p, err := New(Config{Default: Block, Rules: []Rule{r}})
		if err != nil {
			t.Fatal(err)
		}
		if d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Known: true, Listing: true}); d.Action != want {
			t.Errorf("%s: %+v", decision, d)
		}
	}
}

// What can be understood in two ways is refused where rules look at it.
func TestForm(t *testing.T) {
	p, err := New(Config{Rules: []Rule{{ID: "r", On: OnRequest, If: `mcp.request.tool_name == "x"`, Decision: Block, Priority: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	looks, err := New(Config{Rules: []Rule{
		{ID: "r", On: OnRequest, If: `has(mcp.request.arguments.x)`, Decision: Block, Priority: 1},
		{ID: "s", On: OnAsk, If: `has(mcp.ask.params.x)`, Decision: Block, Priority: 1},
		{ID: "t", On: OnResponse, If: `mcp.response.is_error`, Decision: Block, Priority: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	twice := []byte(`{"a":{"b":1,"b":2}}`)
	for _, tt := range []struct {
		p    *Policy
		e    Event
		want string
	}{
		{p, Event{On: OnRequest, Args: twice}, Allow},
		{p, Event{On: OnAsk, Args: twice}, Allow},
		{p, Event{On: OnResponse, Answer: twice}, Allow},
		{looks, Event{On: OnRequest, Args: twice}, Block},
		{looks, Event{On: OnAsk, Args: twice}, Block},
		{looks, Event{On: OnResponse, Answer: twice}, Block},
		{looks, Event{On: OnResponse, Answer: []byte(`{"isError":true,"iserror":false}`)}, Block},
		{looks, Event{On: OnRequest, Args: []byte(`{"path":"a","Path":"b"}`)}, Block},
		{looks, Event{On: OnRequest, Args: []byte(`{"env":{"PATH":"a","path":"b"}}`)}, Block},
		{looks, Event{On: OnResponse, Answer: []byte(`{"env":{"PATH":"a","path":"b"}}`)}, Block},
		{looks, Event{On: OnRequest}, Allow},
	} {
		if d := tt.p.Decide(&tt.e); d.Action != tt.want || tt.want == Block && d.Rule != ruleForm {
			t.Errorf("%s %s%s: %+v", tt.e.On, tt.e.Args, tt.e.Answer, d)
		}
	}
}
