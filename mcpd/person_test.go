package mcpd

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/mcpd/policy"
)

// An asker is a person behind Config.Ask.
type asker struct {
	asked  chan Question
	answer chan policy.Decision
	gone   chan error // why nobody waits any more
}

func newAsker() *asker {
	return &asker{make(chan Question), make(chan policy.Decision), make(chan error, 1)}
}

func (a *asker) ask(ctx context.Context, q Question) policy.Decision {
	a.asked <- q
	select {
	case d := <-a.answer:
		return d
	case <-ctx.Done():
		a.gone <- context.Cause(ctx)
		return policy.Decision{Action: policy.Block, Rule: "nobody", Reason: "nobody answers"}
	}
}

// asking is a policy that asks about writes.
func asking(t testing.TB) *policy.Policy {
	t.Helper()
	return compiled(t, policy.Config{AskTime: time.Hour, Rules: []policy.Rule{{
		ID: "security.rules.mcp.writes", On: policy.OnRequest, Decision: policy.Ask, Priority: policy.PriorityUsual,
		If: `mcp.request.tool_name == "file_write"`, Reason: "writing is for people to allow",
	}}})
}

const writeFile = `{"name":"file_write","arguments":{"path":"f","content":"x"}`

func TestPersonAsked(t *testing.T) {
	t.Parallel()
	someone := newAsker()
	st := newSite(t, func(cfg *Config) { cfg.Ask, cfg.AskNews = someone.ask, time.Millisecond }, nil)
	st.Reload(t.Context(), nil, asking(t))
	g := st.dial(t, 1)
	answer := g.send(g.request("tools/call", writeFile+`,"_meta":{"progressToken":"p"}}`))
	q := <-someone.asked
	if q.Event.Tool != "file_write" || q.Decision.Rule != "security.rules.mcp.writes" || q.Limit != time.Hour || q.Call == 0 {
		t.Errorf("asked %+v", q)
	}
	if r := st.killed()[0]; r["decision"] != "pending" || r["outcome"] != "interrupted" || r["policy_action"] != "ask" || r["policy_rule"] != "security.rules.mcp.writes" {
		t.Errorf("after a crash: %v", r)
	}
	last := -1.0
	for range 3 {
		var p struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		n := <-g.notes
		if json.Unmarshal(n.Params, &p); n.Method != "notifications/progress" || p.ProgressToken != "p" || p.Progress <= last || !strings.Contains(p.Message, "writing is for people") {
			t.Errorf("progress %s %s", n.Method, n.Params)
		}
		last = p.Progress
	}
	someone.answer <- policy.Decision{Action: policy.Allow, Rule: q.Decision.Rule, Reason: "allow, by ann"}
	if m := g.wait(answer); m.Error != nil {
		t.Fatalf("answer %+v", m.Error)
	}
	if r := st.lines(1)[0]; r["decision"] != "allowed" || r["policy_action"] != "allow" || r["policy_reason"] != "allow, by ann" || r["outcome"] != "ok" {
		t.Errorf("record: %v", r)
	}
	answer = g.send(g.request("tools/call", writeFile+`}`))
	q = <-someone.asked
	someone.answer <- policy.Decision{Action: policy.Block, Rule: q.Decision.Rule, Reason: "not today"}
	if m := g.wait(answer); m.Error == nil || m.Error.Message != "MCP request blocked by policy: security.rules.mcp.writes: not today" {
		t.Errorf("answer %s %+v", m.Result, m.Error)
	}
	if r := st.lines(2)[1]; r["decision"] != "denied" || r["policy_action"] != "block" {
		t.Errorf("record: %v", r)
	}
	g.ok("tools/call", readFile[:len(readFile)-1]+`}`) // which nobody is asked about
}

// What a policy blocks that came while a person was asked is not allowed by the
// answer.
func TestPolicyChangedMeanwhile(t *testing.T) {
	t.Parallel()
	someone := newAsker()
	st := newSite(t, func(cfg *Config) { cfg.Ask = someone.ask }, nil)
	for _, tt := range []struct {
		meanwhile *policy.Policy
		fails     string
	}{
		{compiled(t, policy.Config{Deny: []string{"file_write"}}), "MCP request blocked by policy: security.deny"},
		{asking(t), ""},
		{compiled(t, policy.Config{}), ""},
	} {
		st.Reload(t.Context(), nil, asking(t))
		g := st.dial(t, 1)
		answer := g.send(g.request("tools/call", writeFile+`}`))
		q := <-someone.asked
		st.Reload(t.Context(), nil, tt.meanwhile)
		someone.answer <- policy.Decision{Action: policy.Allow, Rule: q.Decision.Rule, Reason: "allow, by ann"}
		m := g.wait(answer)
		if (m.Error != nil) != (tt.fails != "") || m.Error != nil && !strings.HasPrefix(m.Error.Message, tt.fails) {
			t.Errorf("%s %+v, want %q", m.Result, m.Error, tt.fails)
		}
	}
}

// A call whose client cancels it, or goes, takes its question along.
func TestPersonLeftAlone(t *testing.T) {
	t.Parallel()
	someone := newAsker()
	st := newSite(t, func(cfg *Config) { cfg.Ask = someone.ask }, nil)
	st.Reload(t.Context(), nil, asking(t))
	g := st.dial(t, 1)
	g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":` + writeFile + `}}`)
	<-someone.asked
	g.notify("notifications/cancelled", `{"requestId":"x","reason":"bored"}`)
	if why := <-someone.gone; why.Error() != "bored" {
		t.Errorf("gone: %v", why)
	}
	g.send(g.request("tools/call", writeFile+`}`))
	<-someone.asked
	g.conn.Close()
	<-someone.gone
	for i, r := range st.lines(2) {
		if r["decision"] != "error" || r["policy_action"] != "ask" || r["outcome"] != "error" {
			t.Errorf("record %d: %v", i, r)
		}
	}
	if _, err := os.Stat(filepath.Join(st.work, "f")); err == nil {
		t.Error("what was cancelled was done")
	}
	if len(st.events) > 0 || st.Count().Denied != 0 {
		t.Errorf("what was cancelled was told of as denied: %q", st.events)
	}
}

// Where nobody can be asked, what would be is blocked.
func TestNobodyAsked(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	st.Reload(t.Context(), nil, asking(t))
	g := st.dial(t, 1)
	g.fails("tools/call", writeFile+`}`, -32600, "MCP request blocked by policy: security.rules.mcp.writes: there is nobody to ask")
}

// What a policy rewrites is what the server, the guest and the ledger get.
func TestRewritten(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		switch {
		case r.On == policy.OnRequest && r.Tool == "file_read":
			return policy.Decision{Action: policy.Rewrite, Rule: "args", Rewritten: json.RawMessage(`{"path":"g"}`)}
		case r.On == policy.OnRequest && r.Method == "tools/call" && r.Tool != "error":
			return policy.Decision{Action: policy.Rewrite, Rule: "args", Rewritten: json.RawMessage(`{"a":"hidden"}`)}
		case r.On == policy.OnResponse && r.Tool == "error":
			return policy.Decision{Action: policy.Rewrite, Rule: "answers", Rewritten: json.RawMessage(`{"code":-7,"message":"no more"}`)}
		}
		return policy.Decision{Action: policy.Allow, Rule: "default"}
	})
	os.WriteFile(filepath.Join(st.work, "f"), []byte("of f"), 0o644)
	os.WriteFile(filepath.Join(st.work, "g"), []byte("of g"), 0o644)
	g := st.hello(t, 1, `{}`)
	for _, params := range []string{`{"name":"one__echo","arguments":{"a":"token"},"_meta":{}}`, `{"name":"one__echo"}`} {
		if got := string(g.ok("tools/call", params)); !strings.Contains(got, "hidden") || strings.Contains(got, "token") {
			t.Errorf("echo: %s", got)
		}
	}
	if got := string(g.ok("tools/call", readFile)); !strings.Contains(got, "of g") {
		t.Errorf("file_read: %s", got)
	}
	g.fails("tools/call", `{"name":"one__error"}`, -7, "no more")
	rows := st.lines(5)
	for i, want := range []string{`{"a":"hidden"}`, `{"a":"hidden"}`, `{"path":"g"}`} {
		r := rows[i+1]
		if r["policy_action"] != "rewrite" || r["policy_rule"] != "args" || r["decision"] != "allowed" || !strings.Contains(r["request_preview"].(string), want) {
			t.Errorf("record: %v", r)
		}
	}
	if r := rows[4]; r["policy_action"] != "rewrite" || r["policy_rule"] != "answers" {
		t.Errorf("record: %v", r)
	}
}

// What rules have rewritten is what a person allows, and what is done; by the
// policy that holds when the answer comes, and from what was asked for.
func TestRewrittenAsked(t *testing.T) {
	t.Parallel()
	someone := newAsker()
	st := newSite(t, func(cfg *Config) { cfg.Ask = someone.ask }, testServers("one"))
	with := func(rules ...policy.Rule) *policy.Policy {
		for i := range rules {
			rules[i].ID, rules[i].On, rules[i].Priority, rules[i].If = fmt.Sprint("r", i), policy.OnRequest, i+1, `mcp.request.tool_name == "a__b"`
		}
		return compiled(t, policy.Config{Rules: rules})
	}
	first := policy.Rule{Decision: policy.Rewrite, Remove: []string{"items[0]"}}
	redact := policy.Rule{Decision: policy.Rewrite, Redact: []string{"token"}}
	ask, allow := policy.Rule{Decision: policy.Ask}, policy.Rule{Decision: policy.Allow}
	for name, tt := range map[string]struct {
		before, meanwhile *policy.Policy
		want              string
	}{
		"the same":       {with(first, redact, ask), nil, `{"items":[2,3],"token":"[redacted]"}`},
		"asks still":     {with(first, ask), with(first, redact, ask), `{"items":[2,3],"token":"[redacted]"}`},
		"allows":         {with(first, ask), with(first, allow), `{"items":[2,3],"token":"t"}`},
		"rewrites none":  {with(first, redact, ask), with(allow), `{"items":[1,2,3],"token":"t"}`},
		"rewrites first": {with(ask), with(redact), `{"items":[1,2,3],"token":"[redacted]"}`},
	} {
		st.Reload(t.Context(), testServers("one"), tt.before)
		g := st.hello(t, 1, `{}`)
		answer := g.send(g.request("tools/call", `{"name":"one__a__b","arguments":{"items":[1,2,3],"token":"t"}}`))
		q := <-someone.asked
		if tt.meanwhile != nil {
			st.Reload(t.Context(), testServers("one"), tt.meanwhile)
		}
		d := q.Decision // as who asks a person has it
		d.Action, d.Reason = policy.Allow, "allow, by ann"
		someone.answer <- d
		if m := g.wait(answer); !strings.Contains(string(m.Result), `"arguments":`+tt.want) {
			t.Errorf("%s: %s %+v, want %s", name, m.Result, m.Error, tt.want)
		}
	}
}
