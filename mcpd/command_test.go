package mcpd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/policy"
)

// A command runs if the profile lists it and the policy has nothing against it,
// so many at once, and no longer than somebody waits for it.
func TestCommands(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	started := make(chan dispatch.Command, 1)
	st := newSite(t, func(cfg *Config) {
		cfg.Run = func(ctx context.Context, c dispatch.Command) (dispatch.Ran, error) {
			if c.Words[0] == "sleep" {
				started <- c
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return dispatch.Ran{}, ctx.Err()
			}
			return dispatch.Ran{Exec: "cmd-" + c.ID, Stdout: []byte(strings.Join(c.Words, " ")), StdoutBytes: 9}, nil
		}
	}, nil)
	g := st.dial(t, 1)
	const echo = `{"name":"cmd.run","arguments":{"command":"echo","args":["a b"]}}`
	g.fails("tools/call", echo, jsonrpc.CodeParams, "tool not found: cmd.run")
	if got := string(g.ok("tools/list", "")); strings.Contains(got, "cmd.run") {
		t.Error("cmd.run is listed")
	}
	st.SetCommands(dispatch.Config{Enabled: true, MaxConcurrent: 1})
	var asked *policy.Event
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		if r.On != policy.OnExec {
			return policy.Decision{Action: policy.Allow}
		}
		asked = r
		if len(r.Words) > 0 && r.Words[0] == "evil" {
			return policy.Decision{Action: policy.Block, Rule: "security.rules.exec.evil", Reason: "it is evil"}
		}
		if r.Command == "rm" {
			return policy.Decision{Action: policy.Block, Rule: policy.RuleCommands, Reason: `command "rm" is not listed`}
		}
		return policy.Decision{Action: policy.Allow}
	})
	if got := string(g.ok("tools/call", echo)); !strings.Contains(got, `"stdout":"echo a b"`) || !strings.Contains(got, `"truncated":true`) {
		t.Errorf("echo: %s", got)
	}
	if asked == nil || asked.Command != "echo" || len(asked.Words) != 1 || asked.Words[0] != "a b" {
		t.Errorf("asked about %+v", asked)
	}
	g.fails("tools/call", `{"name":"cmd.run","arguments":{"command":"echo","args":["evil"]}}`, jsonrpc.CodeInvalid, "it is evil")
	g.fails("tools/call", `{"name":"cmd.run","arguments":{"command":"rm"}}`, jsonrpc.CodeInvalid, "cmd.allow: command \"rm\"")
	g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"cmd.run","arguments":{"command":"sleep"}}}`)
	if c := <-started; c.ID == "" || c.Timeout != time.Minute || c.MaxOutput != 1<<20 || len(c.Scrub) == 0 {
		t.Errorf("command %+v", c)
	}
	m := g.wait(g.send(g.request("tools/call", echo)))
	if m.Error == nil || !strings.Contains(m.Error.Message, "cmd.max_concurrent: 1 commands run already") || !strings.Contains(string(m.Error.Data), `"class":"recoverable","code":2005`) {
		t.Errorf("the second: %s %+v", m.Result, m.Error)
	}
	g.notify("notifications/cancelled", `{"requestId":"x"}`)
	<-ended
	for _, r := range st.lines(7) {
		if r["policy_rule"] == "cmd.allow" && r["decision"] != "denied" || r["tool_name"] == "cmd.run" && r["policy_rule"] != "unregistered" && r["server_name"] != "cmd" {
			t.Errorf("record %v", r)
		}
	}
}

// What a rule makes of a command's arguments is what runs, if it is what the
// tool takes.
func TestCommandRewritten(t *testing.T) {
	t.Parallel()
	st := newSite(t, func(cfg *Config) {
		cfg.Run = func(_ context.Context, c dispatch.Command) (dispatch.Ran, error) {
			return dispatch.Ran{Stdout: []byte(strings.Join(c.Words, " "))}, nil
		}
	}, nil)
	st.SetCommands(dispatch.Config{Enabled: true})
	runnable := map[string][]string{"echo": {}}
	g := st.dial(t, 1)
	const echo = `{"name":"cmd.run","arguments":{"command":"echo","args":["token"]}}`
	rule := policy.Rule{ID: "r", On: policy.OnRequest, Decision: policy.Rewrite, Priority: policy.PriorityUsual, Redact: []string{"args[*]"}}
	st.Reload(t.Context(), nil, compiled(t, policy.Config{Commands: runnable, Rules: []policy.Rule{rule}}))
	if got := string(g.ok("tools/call", echo)); !strings.Contains(got, `"stdout":"echo [redacted]"`) {
		t.Errorf("redacted: %s", got)
	}
	rule.Redact, rule.Set = nil, map[string]any{"command": "rm"}
	st.Reload(t.Context(), nil, compiled(t, policy.Config{Commands: runnable, Rules: []policy.Rule{rule}}))
	g.fails("tools/call", echo, jsonrpc.CodeInvalid, `cmd.allow: command "rm"`)
	rule.Set = map[string]any{"args": "no list"}
	st.Reload(t.Context(), nil, compiled(t, policy.Config{Commands: runnable, Rules: []policy.Rule{rule}}))
	g.fails("tools/call", echo, jsonrpc.CodeInvalid, "the rewrite of the rule cannot be made")
}

// TestCommandLost has the machine of a command end before it does.
func TestCommandLost(t *testing.T) {
	t.Parallel()
	st := newSite(t, func(cfg *Config) {
		cfg.Run = func(context.Context, dispatch.Command) (dispatch.Ran, error) {
			return dispatch.Ran{Lost: true}, errors.New("killed: out of memory")
		}
	}, nil)
	st.SetCommands(dispatch.Config{Enabled: true})
	st.Reload(t.Context(), nil, compiled(t, policy.Config{Commands: map[string][]string{"echo": {}}}))
	g := st.dial(t, 1)
	m := g.wait(g.send(g.request("tools/call", `{"name":"cmd.run","arguments":{"command":"echo"}}`)))
	if m.Error == nil || !strings.Contains(m.Error.Message, "out of memory") || string(m.Error.Data) != `{"hutch/reached":true}` {
		t.Errorf("the client gets %s %+v", m.Result, m.Error)
	}
	if r := st.lines(1)[0]; r["outcome"] != "interrupted" {
		t.Errorf("record %v", r)
	}
}
