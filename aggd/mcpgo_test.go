package aggd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	// Only tests use this library: as a server that hutch did not write.
	"github.com/mark3labs/mcp-go/mcp"
	mcpgo "github.com/mark3labs/mcp-go/server"

	"hutch/aggd/wire"
)

// newMCPGo returns an MCP server made with mcp-go. Its tool "steps" tells of its
// progress and goes on when "release" is called; "grow" adds a tool.
func newMCPGo() *mcpgo.MCPServer {
	s := mcpgo.NewMCPServer("mcp-go", "1", mcpgo.WithInstructions("made with mcp-go"),
		mcpgo.WithToolCapabilities(true), mcpgo.WithResourceCapabilities(true, true), mcpgo.WithPromptCapabilities(true))
	release := make(chan struct{}, 1)
	grown := new(atomic.Int32)
	text := func(format string, args ...any) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(fmt.Sprintf(format, args...)), nil
	}
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text", mcp.Required())), func(_ context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("%s", q.GetString("text", ""))
	})
	s.AddTool(mcp.NewTool("steps"), func(ctx context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 3 {
			params := map[string]any{"progressToken": q.Params.Meta.ProgressToken, "progress": i, "total": 3}
			if err := s.SendNotificationToClient(ctx, "notifications/progress", params); err != nil {
				return nil, err
			}
		}
		select {
		case <-release:
			return text("released")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s.AddTool(mcp.NewTool("release"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		release <- struct{}{}
		return text("ok")
	})
	s.AddTool(mcp.NewTool("grow"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name := fmt.Sprintf("grown-%d", grown.Add(1))
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("I am %s", name)
		})
		return text("%s", name)
	})
	s.AddResource(mcp.NewResource("mem://a", "a", mcp.WithMIMEType("text/plain")), func(_ context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: q.Params.URI, MIMEType: "text/plain", Text: "A <&> ä"}}, nil
	})
	s.AddResourceTemplate(mcp.NewResourceTemplate("mem://t/{id}", "t"), func(_ context.Context, q mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: q.Params.URI, Text: "T"}}, nil
	})
	s.AddPrompt(mcp.NewPrompt("greet", mcp.WithArgument("who")), func(_ context.Context, q mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return mcp.NewGetPromptResult("", []mcp.PromptMessage{mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent("hello "+q.Params.Arguments["who"]))}), nil
	})
	return s
}

// serveMCPGo serves on stdin and stdout; mcp-go can do that once in a process.
func serveMCPGo() int {
	if err := mcpgo.ServeStdio(newMCPGo()); err != nil && !strings.Contains(err.Error(), "EOF") {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestMCPGo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	serve := func(t *testing.T, h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		t.Cleanup(s.CloseClientConnections) // streams have no end of their own
		return s.URL
	}
	for _, c := range []struct {
		name string
		of   func(t *testing.T) wire.Server
	}{
		{"stdio", func(*testing.T) wire.Server {
			return wire.Server{Program: wire.Program{Command: self, Env: map[string]string{"AGGD_TEST_SERVER": "mcp-go"}}}
		}},
		{"streamable", func(t *testing.T) wire.Server {
			return wire.Server{URL: serve(t, mcpgo.NewStreamableHTTPServer(newMCPGo())) + "/mcp", Type: "streamable-http"}
		}},
		{"stateful", func(t *testing.T) wire.Server {
			return wire.Server{URL: serve(t, mcpgo.NewStreamableHTTPServer(newMCPGo(), mcpgo.WithStateful(true))) + "/mcp"}
		}},
		{"sse", func(t *testing.T) wire.Server {
			return wire.Server{URL: serve(t, mcpgo.NewSSEServer(newMCPGo())) + "/sse", Type: "sse"}
		}},
		{"sse found out", func(t *testing.T) wire.Server {
			return wire.Server{URL: serve(t, mcpgo.NewSSEServer(newMCPGo())) + "/sse"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.of(t)
			d.Name = "m"
			h := start(t, Config{}, d)
			h.useMCPGo(t)
			if st := h.status("m"); st.Instructions != "made with mcp-go" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// useMCPGo uses all that newMCPGo has.
func (h *host) useMCPGo(t *testing.T) {
	if names := h.tools(); !slices.Equal(names, []string{"m__echo", "m__grow", "m__release", "m__steps"}) {
		t.Errorf("tools %v", names)
	}
	wants(t, h.ask("list_resources", ""), `"namespaced_uri":"capsem://m/mem://a"`)
	wants(t, h.ask("list_templates", ""), `"namespaced_uri_template":"capsem://m/mem://t/{id}"`)
	wants(t, h.ask("list_prompts", ""), `"namespaced_name":"m__greet"`)
	for _, c := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"echo","arguments":{"text":"hé <&> \u2028 \ud83d\ude00"}}`, "hé <&> \u2028 😀"},
		{"tools/call", `{"name":"echo","arguments":{}}`, `"text":""`},
		{"tools/call", `{"name":"nobody"}`, `"rpc_error":{"code":-32602`},
		{"resources/read", `{"uri":"mem://a"}`, "A <&> ä"},
		{"resources/read", `{"uri":"mem://t/5"}`, `"uri":"mem://t/5"`},
		{"prompts/get", `{"name":"greet","arguments":{"who":"you"}}`, "hello you"},
		{"ping", "", `"result":{}`},
		{"no/such", "", `"rpc_error":{"code":-32601`},
	} {
		wants(t, unescaped(t, h.rpc("", "m", c.method, c.params)), c.want)
	}

	answer, _ := h.post("rpc", rpcParams("", "m", "tools/call", `{"name":"steps","_meta":{"progressToken":"mine"}}`))
	// mcp-go spreads a session's notifications over the streams that are open,
	// so they have no order over HTTP.
	told := h.unasked() + h.unasked() + h.unasked()
	for i := range 3 {
		wants(t, told, `"notifications/progress"`, `"progressToken":"mine"`, fmt.Sprintf(`"progress":%d`, i))
	}
	h.rpc("", "m", "tools/call", `{"name":"release"}`)
	wants(t, h.await(answer), "released")

	h.grow(t)
	wants(t, h.rpc("", "m", "tools/call", `{"name":"grown-1"}`), "I am grown-1")
}

// grow has tools added until the server tells of it: over HTTP it may be that
// nobody listened yet when the first came.
func (h *host) grow(t *testing.T) {
	for end := time.Now().Add(patience); ; {
		h.rpc("", "m", "tools/call", `{"name":"grow"}`)
		select {
		case line := <-h.unread:
			wants(t, line, `"method":"notifications/tools/list_changed"`)
			if names := h.tools(); !slices.Contains(names, "m__grown-1") {
				t.Errorf("tools %v", names)
			}
			return
		default:
			if time.Now().After(end) {
				t.Fatal("nothing was told of the list")
			}
		}
	}
}

// unescaped returns JSON with as few escapes as can be.
func unescaped(t *testing.T, line string) string {
	var v any
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(b.String(), `\u2028`, "\u2028")
}
