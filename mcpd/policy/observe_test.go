package policy

import "testing"

func TestObserve(t *testing.T) {
	c := Config{Mode: Observe, Default: Block, Rules: []Rule{
		{ID: "r.corp", Layer: "corp", On: OnRequest, If: `mcp.request.tool_name == "drop"`, Decision: Block, Priority: -1, Reason: "never"},
		{ID: "r.user", Layer: "user", On: OnRequest, If: `mcp.request.tool_name.startsWith("d")`, Decision: Block, Priority: 1, Reason: "no"},
		{ID: "r.ask", Layer: "user", On: OnRequest, If: `mcp.request.tool_name == "x"`, Decision: Ask, Priority: 2},
		{ID: "r.yes", Layer: "user", On: OnRequest, If: `mcp.request.tool_name == "y"`, Decision: Allow, Priority: 2},
		{ID: "r.bad", Layer: "user", On: OnRequest, If: `mcp.request.arguments.none == 1`, Decision: Allow, Priority: 3},
	}, Lists: []List{{Server: "s", Blocked: []string{"delete"}}}}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]Decision{
		"drop":   {Action: Block, Rule: "r.corp", Reason: "never"},
		"do":     {Action: Allow, Would: Block, Rule: "r.user", Reason: "no"},
		"delete": {Action: Allow, Would: Block, Rule: "mcpServers.s.blocked_tools"},
		"x":      {Action: Allow, Would: Ask, Rule: "r.ask"},
		"y":      {Action: Allow, Rule: "r.yes"},
		"z":      {Action: Allow, Would: Block, Rule: "r.bad"},
	} {
		d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: tool, Name: "s__" + tool, Known: true})
		if d.Action != want.Action || d.Would != want.Would || d.Rule != want.Rule || want.Reason != "" && d.Reason != want.Reason || d.Code != nil && d.Action == Allow {
			t.Errorf("%s: %+v", tool, d)
		}
	}
	if d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: "none", Name: "s__none"}); d.Action != Block || d.Rule != "unregistered" {
		t.Errorf("unregistered: %+v", d)
	}
	if d := p.Decide(&Event{On: OnAsk}); d.Action != Allow || d.Would != Block || d.Rule != "default" {
		t.Errorf("by default: %+v", d)
	}
	for _, mode := range []string{"", Enforce} {
		c.Mode = mode
		if p, err = New(c); err != nil {
			t.Fatal(err)
		}
		if d := p.Decide(&Event{On: OnAsk}); d.Action != Block || d.Would != "" {
			t.Errorf("%q: %+v", mode, d)
		}
	}
	if _, err := New(Config{Mode: "watch"}); err == nil || err.Error() != `security: "watch": it is enforce or observe` {
		t.Error(err)
	}
}

// What is only observed hides no rule after it that counts all the same.
func TestObservedFirst(t *testing.T) {
	p, err := New(Config{Mode: Observe, Rules: []Rule{
		{ID: "first", Layer: "user", On: OnRequest, If: `mcp.request.tool_name != "free"`, Decision: Block, Priority: 1},
		{ID: "allow", Layer: "user", On: OnRequest, Decision: Allow, Priority: 2},
		{ID: "may", Layer: "corp", On: OnRequest, If: `mcp.request.tool_name == "safe"`, Decision: Allow, Priority: 3},
		{ID: "never", Layer: "corp", On: OnRequest, Decision: Block, Priority: 4},
	}, Lists: []List{{Server: "s", Allowed: []string{"safe", "drop", "free"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tool  string
		known bool
		want  Decision
	}{
		{"drop", true, Decision{Action: Block, Rule: "never"}},
		{"safe", true, Decision{Action: Allow, Would: Block, Rule: "first"}},
		{"free", true, Decision{Action: Allow, Rule: "allow"}},
		{"gone", false, Decision{Action: Block, Rule: "unregistered"}}, // which the list would refuse before
	} {
		d := p.Decide(&Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: tt.tool, Name: "s__" + tt.tool, Known: tt.known})
		if d.Action != tt.want.Action || d.Would != tt.want.Would || d.Rule != tt.want.Rule {
			t.Errorf("%s: %+v", tt.tool, d)
		}
	}
}
