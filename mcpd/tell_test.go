package mcpd

import (
	"strings"
	"testing"

	"hutch/mcpd/policy"
)

// What a server tells before its result is judged as that is.
func TestTold(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 1, `{}`)
	rule := policy.Rule{ID: "numbers", On: policy.OnResponse, Priority: policy.PriorityUsual, If: `mcp.response.content.exists(c, c.text.contains("9007"))`}
	redact := rule
	rule.Decision = policy.Block
	redact.Decision, redact.Redact, redact.Match = policy.Rewrite, []string{"content[*].text"}, "9007[0-9]*"
	for _, tt := range []struct {
		name           string
		config         policy.Config
		progress, data string
	}{
		{"nothing", policy.Config{}, `"message":"n is 9007"`, `"data":{"n":9007199254740993}`},
		{"block", policy.Config{Rules: []policy.Rule{rule}}, `"message":"[withheld by policy]"`, `"data":"[withheld by policy]"`},
		{"redact", policy.Config{Rules: []policy.Rule{redact}}, `"message":"n is [redacted]"`, `"data":"{\"n\":[redacted]}"`},
		{"observe", policy.Config{Mode: policy.Observe, Rules: []policy.Rule{rule}}, `"message":"n is 9007"`, `"data":{"n":9007199254740993}`},
	} {
		st.Reload(t.Context(), testServers("one"), compiled(t, tt.config))
		g.ok("tools/call", `{"name":"one__log","_meta":{"progressToken":"t"}}`)
		if n := g.note("notifications/progress"); !strings.Contains(string(n.Params), tt.progress) {
			t.Errorf("%s: progress %s", tt.name, n.Params)
		}
		for range 2 { // one of each level
			if n := g.note("notifications/message"); !strings.Contains(string(n.Params), tt.data) {
				t.Errorf("%s: message %s", tt.name, n.Params)
			}
		}
	}
	if !st.saw(`tools/call "one__log": numbers`) {
		t.Errorf("security events: %q", st.events)
	}
}

// A rule that rewrites whatever is asked leaves what has no arguments alone.
func TestRewriteOfLists(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	st.Reload(t.Context(), testServers("one"), compiled(t, policy.Config{Rules: []policy.Rule{{
		ID: "all", On: policy.OnRequest, Decision: policy.Rewrite, Priority: policy.PriorityUsual, Redact: []string{"a"},
	}}}))
	g := st.hello(t, 1, `{}`)
	g.ok("tools/list", "")
	g.ok("tools/list", `{}`)
	g.ok("resources/read", `{"uri":"capsem://one/test://one/one"}`)
	if got := string(g.ok("tools/call", `{"name":"one__a__b","arguments":{"a":"x"}}`)); !strings.Contains(got, `{"a":"[redacted]"}`) {
		t.Errorf("a call: %s", got)
	}
	for _, r := range st.lines(5) {
		want := "allow"
		if r["method"] == "tools/call" {
			want = "rewrite"
		}
		if r["policy_action"] != want {
			t.Errorf("record %v", r)
		}
	}
}
