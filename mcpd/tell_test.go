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

// What a server tells is passed on member by member where results are judged.
func TestTelling(t *testing.T) {
	t.Parallel()
	rule := policy.Rule{ID: "prod", On: policy.OnResponse, Decision: policy.Block, Priority: 9, If: `mcp.response.content.exists(c, c.text.contains("prod-"))`}
	redact := policy.Rule{ID: "redact", On: policy.OnResponse, Decision: policy.Rewrite, Priority: 1, Redact: []string{"content[*].text"}, Match: "tok-[0-9]"}
	about := func() *policy.Event {
		return &policy.Event{Method: "tools/call", Server: "one", Tool: "x", Known: true}
	}
	for _, tt := range []struct {
		mode   string
		told   telling
		params string
		want   string
	}{
		{policy.Enforce, tellsProgress, `{"progressToken":"t","progress":1,"total":2,"message":"m tok-1"}`, `{"progressToken":"t","progress":1,"total":2,"message":"m [redacted]"}`},
		{policy.Enforce, tellsProgress, `{"progressToken":1,"progress":"prod-","message":"m","_meta":{"x":"prod-"},"other":"prod-"}`, `{"progressToken":1,"message":"m"}`},
		{policy.Enforce, tellsProgress, `{"progressToken":1,"message":"prod-1","message":"m"}`, ""},
		{policy.Enforce, tellsProgress, `{"progressToken":1,"Message":"prod-1"}`, ""},
		{policy.Enforce, tellsProgress, `{"progressToken":1}`, `{"progressToken":1}`},
		{policy.Enforce, tellsLog, `{"level":"info","logger":"prod-1","data":1}`, `{"level":"info","data":"[withheld by policy]","logger":"[withheld by policy]"}`},
		{policy.Enforce, tellsLog, `{"level":"prod-1","data":{"n":1e400}}`, `{"data":{"n":1e400}}`},
		{policy.Observe, tellsLog, `{"level":"info","data":"tok-1 prod-1"}`, `{"level":"info","data":"[redacted] prod-1"}`},
		{policy.Observe, tellsLog, `{"level":"info","data":"prod-1"}`, `{"level":"info","data":"prod-1"}`},
	} {
		st := newSite(t, nil, nil)
		st.Reload(t.Context(), nil, compiled(t, policy.Config{Mode: tt.mode, Rules: []policy.Rule{redact, rule}}))
		if got := string(st.told(tt.told, about, []byte(tt.params))); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.mode, tt.params, got, tt.want)
		}
		if st.mayTell(about, []byte(`{"statusMessage":"prod-1"}`)) != (tt.mode == policy.Observe) || st.mayTell(about, []byte(`{"x":"tok-1"}`)) || !st.mayTell(about, []byte(`{"x":"y"}`)) {
			t.Errorf("%s: another notification", tt.mode)
		}
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
