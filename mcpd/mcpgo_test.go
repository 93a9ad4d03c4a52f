package mcpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	// Only tests use this library: as a client that hutch did not write.
	mcpgo "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"hutch/aggd/jsonrpc"
)

// goClient is a guest's program that uses mcp-go. It answers what servers ask.
type goClient struct {
	*mcpgo.Client
	notes chan mcp.JSONRPCNotification
}

func (goClient) CreateMessage(_ context.Context, q mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	said, ok := q.Messages[0].Content.(mcp.TextContent)
	if !ok { // of an input_required result mcp-go decodes no content
		said.Text = q.Messages[0].Content.(map[string]any)["text"].(string)
	}
	text := "sampled " + said.Text
	return &mcp.CreateMessageResult{Model: "m", SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent(text)}}, nil
}

func (goClient) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}}, nil
}

func (goClient) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///workspace", Name: "w"}}}, nil
}

// revisions are those that an mcp-go client begins with.
var goRevisions = map[string][]mcpgo.ClientOption{
	jsonrpc.Stateless: nil,
	jsonrpc.Newest:    {mcpgo.WithLegacyProtocolOnly()},
}

func (st *site) connectMCPGo(t *testing.T, options ...mcpgo.ClientOption) (goClient, *mcp.InitializeResult) {
	t.Helper()
	out, in := st.program(t, "mcp-go client")
	c := goClient{notes: make(chan mcp.JSONRPCNotification, 1000)}
	c.Client = mcpgo.NewClient(transport.NewIO(out, in, io.NopCloser(strings.NewReader(""))),
		append(options, mcpgo.WithSamplingHandler(c), mcpgo.WithElicitationHandler(c), mcpgo.WithRootsHandler(c))...)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.OnNotification(func(n mcp.JSONRPCNotification) { c.notes <- n })
	q := mcp.InitializeRequest{}
	q.Params.ClientInfo = mcp.Implementation{Name: "client", Version: "1"}
	r, err := c.Initialize(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

// call calls a tool and returns the text of its result.
func (c goClient) call(ctx context.Context, tool string, token any, args map[string]any) (string, error) {
	q := mcp.CallToolRequest{}
	q.Params.Name, q.Params.Arguments = tool, args
	if token != nil {
		q.Params.Meta = &mcp.Meta{ProgressToken: token}
	}
	r, err := c.CallTool(ctx, q)
	switch {
	case err != nil:
		return "", err
	case r.IsError:
		return "", fmt.Errorf("the tool failed: %v", r.Content)
	case len(r.Content) == 0:
		return string(r.RawStructuredContent), nil
	}
	return r.Content[0].(mcp.TextContent).Text, nil
}

// note waits for a notification of that method.
func (c goClient) note(t *testing.T, method string) map[string]any {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case n := <-c.notes:
			if n.Method == method {
				return n.Params.AdditionalFields
			}
		case <-late:
			t.Fatalf("no %s", method)
		}
	}
}

// A client made with mcp-go, and servers made with the SDK and by hand.
func TestMCPGo(t *testing.T) {
	t.Parallel()
	for revision, options := range goRevisions {
		t.Run(revision, func(t *testing.T) { testMCPGo(t, revision, options) })
	}
}

func testMCPGo(t *testing.T, revision string, options []mcpgo.ClientOption) {
	t.Parallel()
	st := newSite(t, nil, testServers("sdk", "one"))
	c, hello := st.connectMCPGo(t, options...)
	ctx := t.Context()
	if hello.ProtocolVersion != revision || hello.ServerInfo.Name != "hutch" || !strings.Contains(hello.Instructions, "made with the SDK") {
		t.Errorf("initialize: %+v", hello)
	}
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(tools.Tools, func(t mcp.Tool) bool { return t.Name == "sdk__echo" }) {
		t.Fatalf("tools: %+v, %v", tools, err)
	}
	for _, tt := range []struct{ tool, in, want string }{
		{"sdk__echo", "hé <&>", "hé <&>"}, {"sdk__sample", "this", "sampled this"}, {"sdk__elicit", "?", "decline"},
		{"sdk__roots", "", "file:///workspace"},
	} {
		if revision == jsonrpc.Stateless && tt.tool != "sdk__echo" {
			continue // these tools ask in ways that this SDK refuses a client of this revision
		}
		got, err := c.call(ctx, tt.tool, nil, map[string]any{"text": tt.in})
		if want := `{"text":` + quote(tt.want) + `}`; err != nil || strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(got) != want {
			t.Errorf("%s: %s, %v, want %s", tt.tool, got, err, want)
		}
	}
	resources, err1 := c.ListResources(ctx, mcp.ListResourcesRequest{})
	templates, err2 := c.ListResourceTemplates(ctx, mcp.ListResourceTemplatesRequest{})
	prompts, err3 := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err := errors.Join(err1, err2, err3); err != nil || len(resources.Resources) != 3 || len(templates.ResourceTemplates) != 1 || len(prompts.Prompts) != 2 {
		t.Errorf("lists: %+v, %+v, %+v, %v", resources, templates, prompts, err)
	}
	read := mcp.ReadResourceRequest{}
	read.Params.URI = "capsem://sdk/mem://a"
	if r, err := c.ReadResource(ctx, read); err != nil || r.Contents[0].(mcp.TextResourceContents).Text != "A" {
		t.Errorf("resource: %+v, %v", r, err)
	}
	get := mcp.GetPromptRequest{}
	get.Params.Name, get.Params.Arguments = "sdk__greet", map[string]string{"who": "you"}
	if r, err := c.GetPrompt(ctx, get); err != nil || r.Messages[0].Content.(mcp.TextContent).Text != "hello you" {
		t.Errorf("prompt: %+v, %v", r, err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if _, err := c.call(ctx, "nobody__x", nil, nil); err == nil {
		t.Error("a tool that does not exist was called")
	}
}

// What an mcp-go client is told while it calls, and by what it gives up.
func TestMCPGoNotifications(t *testing.T) {
	t.Parallel()
	for revision, options := range goRevisions {
		t.Run(revision, func(t *testing.T) { testMCPGoNotifications(t, revision, options) })
	}
}

func testMCPGoNotifications(t *testing.T, revision string, options []mcpgo.ClientOption) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	c, _ := st.connectMCPGo(t, options...)
	ctx := t.Context()
	if got, err := c.call(ctx, "one__progress", "token", nil); err != nil || got != "done" {
		t.Errorf("progress: %s, %v", got, err)
	}
	for i := range 3 {
		if p := c.note(t, "notifications/progress"); p["progress"] != float64(i) || p["progressToken"] != "token" {
			t.Errorf("progress %v, want %d", p, i)
		}
	}
	if revision == jsonrpc.Stateless {
		if _, err := c.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}, nil); err != nil {
			t.Fatal(err)
		}
		c.note(t, "notifications/subscriptions/acknowledged")
	}
	if _, err := c.ListTools(ctx, mcp.ListToolsRequest{}); err != nil {
		t.Error(err)
	}
	if got, err := c.call(ctx, "one__grow", nil, nil); err != nil || got != "grown" {
		t.Errorf("grow: %s, %v", got, err)
	}
	c.note(t, "notifications/tools/list_changed")
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(tools.Tools, func(t mcp.Tool) bool { return t.Name == "one__grown" }) {
		t.Errorf("tools after the change: %v", err)
	}

	cancelled, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := c.call(cancelled, "one__wait", "wait", nil)
		done <- err
	}()
	c.note(t, "notifications/progress")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	for end := time.Now().Add(patience); ; {
		events, err := c.call(ctx, "one__events", nil, nil)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the server was not told: %q, %v", events, err)
		}
		if strings.Contains(events, "cancelled: ") {
			break
		}
	}
}
