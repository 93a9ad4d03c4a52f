package mcpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/policy"
)

func init() { otherServers["newer"] = serveNewer }

// serveNewer is an MCP server that speaks 2026-07-28 and nothing else, made with
// the official Go SDK.
func serveNewer() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "newer", Version: "1"}, &mcp.ServerOptions{
		Instructions: "made with the SDK", SupportedProtocolVersions: []string{jsonrpc.Stateless},
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	schema := map[string]any{"type": "object"}
	tool := func(name string, do mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: schema}, do)
	}
	text := func(format string, args ...any) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil
	}
	asks := func(name string, q mcp.InputRequest, got func(mcp.InputResponse) string) {
		tool(name, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer := r.Params.InputResponses["it"]; answer != nil && r.Params.RequestState == "state of "+name {
				return text("%s", got(answer))
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"it": q}, RequestState: "state of " + name}, nil
		})
	}
	tool("echo", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", r.Params.Arguments)
	})
	asks("elicit", &mcp.ElicitParams{Message: "who?", Mode: "form", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}},
		func(a mcp.InputResponse) string { return a.(*mcp.ElicitResult).Action })
	asks("roots", &mcp.ListRootsParams{}, func(a mcp.InputResponse) string { return a.(*mcp.ListRootsResult).Roots[0].URI })
	asks("sample", &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "this"}}}},
		func(a mcp.InputResponse) string {
			return a.(*mcp.CreateMessageWithToolsResult).Content[0].(*mcp.TextContent).Text
		})
	tool("many", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		all := mcp.InputRequestMap{}
		for i := range 20_000 {
			all[fmt.Sprint(i)] = &mcp.ElicitParams{Message: "who?", Mode: "form", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}
		}
		return &mcp.CallToolResult{InputRequests: all, RequestState: "S"}, nil
	})
	tool("steps", func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: float64(i)})
		}
		return text("done")
	})
	tool("log", func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		q.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "said"})
		return text("logged")
	})
	tool("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		tool("grown", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("") })
		return text("grown")
	})
	tool("touch", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "mem://a"})
		return text("touched")
	})
	tool("stuck", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s.AddResource(&mcp.Resource{URI: "mem://a", Name: "a"}, func(_ context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: q.Params.URI, Text: "A"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(_ context.Context, q *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello " + q.Params.Arguments["who"]}}}}, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A server of 2026-07-28, for clients of that revision and of older ones.
func TestNewerServer(t *testing.T) {
	t.Parallel()
	for revision, options := range goRevisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			st := newSite(t, nil, testServers("newer"))
			c, hello := st.connectMCPGo(t, options...)
			ctx := t.Context()
			if hello.ProtocolVersion != revision || hello.Instructions != "# newer\n\nmade with the SDK" {
				t.Errorf("hello: %+v", hello)
			}
			st.awaitServers("newer connected transport stdio tools 10 resources 1 templates 0 prompts 1 protocol 2026-07-28")
			for _, tt := range []struct{ tool, want string }{
				{"echo", `{"a":9007199254740993}`}, {"elicit", "decline"}, {"roots", "file:///workspace"}, {"sample", "sampled this"},
			} {
				if got, err := c.call(ctx, "newer__"+tt.tool, nil, map[string]any{"a": 9007199254740993}); err != nil || got != tt.want {
					t.Errorf("%s: %s, %v, want %s", tt.tool, got, err, tt.want)
				}
			}
			if got, err := c.call(ctx, "newer__steps", "token", map[string]any{}); err != nil || got != "done" {
				t.Errorf("steps: %s, %v", got, err)
			}
			for i := range 3 {
				if p := c.note(t, "notifications/progress"); p["progress"] != float64(i) || p["progressToken"] != "token" {
					t.Errorf("progress %v, want %d", p, i)
				}
			}
			filter := mcpgo.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"capsem://newer/mem://a"}}
			if revision == jsonrpc.Stateless {
				if _, err := c.ListenAsync(ctx, filter, nil); err != nil {
					t.Fatal(err)
				}
				c.note(t, "notifications/subscriptions/acknowledged")
			} else {
				q := mcpgo.SubscribeRequest{}
				q.Params.URI = filter.ResourceSubscriptions[0]
				if err := c.Subscribe(ctx, q); err != nil {
					t.Fatal(err)
				}
			}
			c.call(ctx, "newer__touch", nil, nil)
			if p := c.note(t, "notifications/resources/updated"); p["uri"] != "capsem://newer/mem://a" {
				t.Errorf("updated: %v", p)
			}
			c.call(ctx, "newer__grow", nil, nil)
			c.note(t, "notifications/tools/list_changed")
		})
	}
}

// What passes between a server and an older client of it, and what does not.
func TestNewerServerTrace(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newer"))
	old := st.hello(t, 2, `{"elicitation":{}}`)
	for _, tt := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"newer__echo","arguments":{"a":1}}`, `"content":[{"type":"text","text":"{\"a\":1}"}]`},
		{"resources/read", `{"uri":"capsem://newer/mem://a"}`, `"contents":[{"uri":"mem://a","text":"A"}]`},
		{"prompts/get", `{"name":"newer__greet","arguments":{"who":"me"}}`, `"hello me"`},
		{"logging/setLevel", `{"level":"info"}`, `{}`},
	} {
		got := string(old.ok(tt.method, tt.params))
		if !strings.Contains(got, tt.want) || strings.Contains(got, "resultType") || strings.Contains(got, "ttlMs") || strings.Contains(got, "cacheScope") {
			t.Errorf("%s: %s", tt.method, got)
		}
	}
	old.ok("tools/call", `{"name":"newer__log","arguments":{}}`)
	if m := old.note("notifications/message"); string(m.Params) != `{"data":"said","level":"info"}` && !strings.Contains(string(m.Params), `"said"`) {
		t.Errorf("log: %s", m.Params)
	}
	old.fails("resources/read", `{"uri":"capsem://newer/mem://none"}`, jsonrpc.CodeParams, "")
	// An older client whose user declines with an error has the call end with it.
	ch := old.send(old.request("tools/call", `{"name":"newer__elicit","arguments":{}}`))
	f := <-old.asks
	if !strings.Contains(string(f.Payload), `"method":"elicitation/create","params":{"mode":"form","message":"who?"`) {
		t.Errorf("asked: %s", f.Payload)
	}
	f.Payload = []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`)
	old.w.WriteFrame(f)
	if m := old.wait(ch); m.Error == nil || m.Error.Code != -1 || m.Error.Message != "no" {
		t.Errorf("declined: %s %+v", m.Result, m.Error)
	}
	// To a newer client it passes as it is.
	g := st.dial(t, 2)
	able := offering(`{"elicitation":{"form":{}}}`)
	first := string(g.ok("tools/call", `{"name":"newer__elicit","arguments":{},`+able+`}`))
	if !strings.Contains(first, `"resultType":"input_required"`) || !strings.Contains(first, `"requestState":"state of elicit"`) {
		t.Errorf("input_required: %s", first)
	}
	last := string(g.ok("tools/call", `{"name":"newer__elicit","arguments":{},"requestState":"state of elicit","inputResponses":{"it":{"action":"cancel"}},`+able+`}`))
	if !strings.Contains(last, `"text":"cancel"`) {
		t.Errorf("result: %s", last)
	}
	g.fails("tools/call", `{"name":"newer__sample","arguments":{},`+able+`}`, jsonrpc.CodeMethod, "sampling/createMessage")
	if got := string(g.ok("resources/read", `{"uri":"capsem://newer/mem://a",`+offering(`{}`)+`}`)); !strings.Contains(got, `"cacheScope":"private"`) || strings.Contains(got, `"public"`) {
		t.Errorf("resources/read: %s", got)
	}
	g.fails("tools/call", `{"name":"newer__many","arguments":{},`+able+`}`, jsonrpc.CodeInternal, "more than 64 things at once")
	// A call that is given up is given up at the server.
	g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"newer__stuck","arguments":{},` + offering(`{}`) + `}}`)
	g.notify("notifications/cancelled", `{"requestId":"x"}`)
	g.ok("tools/call", `{"name":"newer__echo","arguments":{},`+offering(`{}`)+`}`)
}

// What a newer server asks, and what it is answered, meets the policy in both
// forms.
func TestNewerServerPolicy(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newer"))
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		switch {
		case r.On == policy.OnAsk && r.Method == "sampling/createMessage":
			return policy.Decision{Action: policy.Block, Rule: "asks", Reason: "servers do not ask"}
		case r.On == policy.OnResponse && r.Method == "elicitation/create" && strings.Contains(string(r.Answer), "secret"):
			return policy.Decision{Action: policy.Block, Rule: "answers", Reason: "that stays here"}
		case r.On == policy.OnAsk && r.Method == "elicitation/create":
			return policy.Decision{Action: policy.Rewrite, Rewritten: []byte(`{"message":"who, please?","requestedSchema":{}}`)}
		}
		return policy.Decision{Action: policy.Allow}
	})
	g, old := st.dial(t, 2), st.hello(t, 2, `{"elicitation":{},"sampling":{}}`)
	able := offering(`{"elicitation":{},"sampling":{}}`)
	const blocked = "MCP request blocked by policy: asks: servers do not ask"
	g.fails("tools/call", `{"name":"newer__sample","arguments":{},`+able+`}`, jsonrpc.CodeInvalid, blocked)
	old.fails("tools/call", `{"name":"newer__sample","arguments":{}}`, jsonrpc.CodeInvalid, blocked)
	if got := string(g.ok("tools/call", `{"name":"newer__elicit","arguments":{},`+able+`}`)); !strings.Contains(got, `"params":{"message":"who, please?","requestedSchema":{}}`) {
		t.Errorf("rewritten: %s", got)
	}
	for _, answer := range []string{`{"action":"accept","content":{"x":"secret"}}`, `{"content":{"x":"secret"}}`, `{"roots":[],"action":"x","content":"secret"}`} {
		g.fails("tools/call", `{"name":"newer__elicit","arguments":{},"requestState":"state of elicit","inputResponses":{"it":`+answer+`},`+able+`}`,
			jsonrpc.CodeInvalid, "blocked by policy: answers: that stays here")
	}
	asked := 0
	for _, r := range st.lines(7) {
		if r["direction"] == "server" {
			asked++
		}
	}
	if asked != 3 {
		t.Errorf("%d rows of what the server asked, want 3", asked)
	}
	many := `"0":{}`
	for i := range maxInputs {
		many += fmt.Sprintf(`,"%d":{}`, i+1)
	}
	g.fails("tools/call", `{"name":"newer__elicit","arguments":{},"requestState":"state of elicit","inputResponses":{`+many+`},`+able+`}`,
		jsonrpc.CodeParams, "more than 64 inputResponses")
}
