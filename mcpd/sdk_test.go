package mcpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/relay"
)

func init() { otherServers["sdk"] = serveSDK }

// serveSDK is an MCP server made with the official Go SDK.
func serveSDK() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Instructions: "made with the SDK"})
	type text struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		return nil, in, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "steps"}, func(ctx context.Context, q *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		for i := range 3 {
			q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: float64(i)})
		}
		return nil, in, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "sample"}, func(ctx context.Context, q *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		r, err := q.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 5, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: in.Text}}}})
		if err != nil {
			return nil, text{}, err
		}
		return nil, text{r.Content.(*mcp.TextContent).Text}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "elicit"}, func(ctx context.Context, q *mcp.CallToolRequest, in text) (*mcp.CallToolResult, text, error) {
		r, err := q.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return nil, text{}, err
		}
		return nil, text{r.Action}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "roots"}, func(ctx context.Context, q *mcp.CallToolRequest, _ text) (*mcp.CallToolResult, text, error) {
		r, err := q.Session.ListRoots(ctx, nil)
		if err != nil || len(r.Roots) == 0 {
			return nil, text{}, err
		}
		return nil, text{r.Roots[0].URI}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "stuck"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ text) (*mcp.CallToolResult, text, error) {
		<-ctx.Done()
		return nil, text{}, ctx.Err()
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

// program starts a relay in the guest and returns its standard output and
// input, as the program has them that speaks through it.
func (st *site) program(t *testing.T, name string) (out io.Reader, in io.WriteCloser) {
	t.Helper()
	fromClient, clientOut := io.Pipe()
	clientIn, toClient := io.Pipe()
	var all sync.WaitGroup
	dial := func(context.Context) (net.Conn, error) {
		a, b := socketPair(t)
		all.Go(func() { st.Serve(context.Background(), b) })
		return a, nil
	}
	all.Go(func() {
		if err := relay.Run(context.Background(), fromClient, toClient, dial, name, st.seals); err != nil {
			t.Errorf("relay: %v", err)
		}
		toClient.Close()
	})
	t.Cleanup(func() {
		clientOut.Close()
		io.Copy(io.Discard, clientIn) // or what comes late would find no reader
		all.Wait()
	})
	return clientIn, clientOut
}

// connect returns a session of the SDK's client with the site, through the
// relay.
func (st *site) connect(t *testing.T, c *mcp.Client) *mcp.ClientSession {
	t.Helper()
	out, in := st.program(t, "sdk client")
	session, err := c.Connect(t.Context(), &mcp.IOTransport{Reader: io.NopCloser(out), Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// The official SDK at both ends: whatever it can do works through hutch.
func TestSDK(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("sdk"))
	progress := make(chan float64, 10)
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, q *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "sampled " + q.Params.Messages[0].Content.(*mcp.TextContent).Text}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) {
			progress <- q.Params.Progress
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///workspace", Name: "w"})
	s := st.connect(t, c)
	ctx := t.Context()
	if got := s.InitializeResult(); got.ProtocolVersion != "2025-11-25" || got.Instructions != "# sdk\n\nmade with the SDK" {
		t.Errorf("initialize: %+v", got)
	}
	tools, err := s.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != ours+6 {
		t.Fatalf("tools: %+v, %v", tools, err)
	}
	for _, tt := range []struct{ tool, in, want string }{
		{"sdk__echo", "hello", "hello"}, {"sdk__sample", "this", "sampled this"}, {"sdk__elicit", "?", "decline"},
		{"sdk__roots", "", "file:///workspace"},
	} {
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tt.tool, Arguments: map[string]any{"text": tt.in}})
		if err != nil || r.IsError {
			t.Errorf("%s: %+v, %v", tt.tool, r, err)
			continue
		}
		if got := r.StructuredContent.(map[string]any)["text"]; got != tt.want {
			t.Errorf("%s: %v, want %s", tt.tool, got, tt.want)
		}
	}
	p := &mcp.CallToolParams{Name: "sdk__steps", Arguments: map[string]any{"text": "x"}}
	p.SetProgressToken("token")
	if _, err := s.CallTool(ctx, p); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		if got := <-progress; got != float64(i) {
			t.Errorf("progress %v, want %d", got, i)
		}
	}
	if r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "capsem://sdk/mem://a"}); err != nil || r.Contents[0].Text != "A" {
		t.Errorf("resource: %+v, %v", r, err)
	}
	if r, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "sdk__greet", Arguments: map[string]string{"who": "you"}}); err != nil || r.Messages[0].Content.(*mcp.TextContent).Text != "hello you" {
		t.Errorf("prompt: %+v, %v", r, err)
	}
	if err := s.Ping(ctx, nil); err != nil {
		t.Errorf("ping: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	go cancel()
	if _, err := s.CallTool(cancelled, &mcp.CallToolParams{Name: "sdk__stuck", Arguments: map[string]any{"text": ""}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "nobody__x"}); err == nil {
		t.Error("a tool that does not exist was called")
	}
}
