// Mcpclient does all that the MCP reference server offers, and prints what
// came of it, a line for each deed: what was done, a tab, and JSON.
//
// Usage:
//
//	mcpclient [-name PREFIX] [-uri PREFIX] URL | COMMAND...
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	name = flag.String("name", "", "`prefix` of tools' and prompts' names")
	uri  = flag.String("uri", "", "`prefix` of resources' URIs")
)

// A client is a session, with what its server sent of its own accord.
type client struct {
	ctx      context.Context
	s        *mcp.ClientSession
	progress chan string
	logs     chan string
	updated  chan string
	changed  chan string // there are other tools
}

// say prints what came of a deed.
func say(what string, v any, err error) {
	if err != nil {
		v = map[string]string{"error": err.Error()}
	}
	b, jerr := json.Marshal(v)
	if jerr != nil {
		log.Fatal(jerr)
	}
	fmt.Printf("%s\t%s\n", what, b)
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := &client{ctx: ctx, progress: make(chan string, 100), logs: make(chan string, 100), updated: make(chan string, 100), changed: make(chan string, 100)}
	if err := c.connect(flag.Args()); err != nil {
		log.Fatal(err)
	}
	c.tools()
	c.longCall()
	c.resources()
	c.prompts()
	c.complete()
	c.logging()
	if err := c.s.Close(); err != nil && flag.NArg() == 1 {
		log.Fatal(err)
	}
}

func (c *client) connect(args []string) error {
	mc := mcp.NewClient(&mcp.Implementation{Name: "mcpclient", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(_ context.Context, q *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			asked, _ := json.Marshal(q.Params)
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "answer to " + string(asked)}}, nil
		},
		ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if q.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann", "check": true, "email": "a@b.org", "integer": 7}}, nil
		},
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},
			Sampling:    &mcp.SamplingCapabilities{},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) {
			c.progress <- fmt.Sprintf("%v of %v for %v", q.Params.Progress, q.Params.Total, q.Params.ProgressToken)
		},
		LoggingMessageHandler:  func(_ context.Context, q *mcp.LoggingMessageRequest) { c.logs <- string(q.Params.Level) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- "" },
		ResourceUpdatedHandler: func(_ context.Context, q *mcp.ResourceUpdatedNotificationRequest) { c.updated <- q.Params.URI },
	})
	mc.AddRoots(&mcp.Root{URI: "file:///workspace", Name: "w"})
	var t mcp.Transport = &mcp.CommandTransport{Command: exec.Command(args[0], args[1:]...), TerminateDuration: time.Second}
	if strings.HasPrefix(args[0], "http") {
		t = &mcp.StreamableClientTransport{Endpoint: args[0]}
	}
	var err error
	c.s, err = mc.Connect(c.ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		say("protocol", c.s.InitializeResult().ProtocolVersion, nil)
	}
	return err
}

// own tells those of all that are of the server that is tried: their names
// begin with prefix.
func own[T any](what, prefix string, all iter.Seq2[T, error], name func(T) string) (list []T) {
	for v, err := range all {
		if err != nil {
			log.Fatal(err)
		}
		if strings.HasPrefix(name(v), prefix) {
			say(what+" "+name(v), v, nil)
			list = append(list, v)
		}
	}
	return list
}

// arguments of tools that need some, or other than their defaults.
var arguments = map[string]map[string]any{
	"echo":                           {"message": "hello, \u00e9\u4e16\U0001f600 <&> 9007199254740993"},
	"get-annotated-message":          {"messageType": "error", "includeImage": true},
	"get-resource-links":             {"count": 3},
	"get-resource-reference":         {"resourceType": "Blob", "resourceId": 2},
	"get-structured-content":         {"location": "New York"},
	"get-sum":                        {"a": 1.5, "b": 2},
	"gzip-file-as-resource":          {"name": "x.gz", "data": "data:text/plain,hello", "outputType": "resource"},
	"simulate-research-query":        {"topic": "files"},
	"trigger-long-running-operation": {"duration": 0.3, "steps": 3},
	"trigger-sampling-request":       {"prompt": "why", "maxTokens": 7},
	"trigger-url-elicitation":        {"url": "https://example.org/", "elicitationId": "one"},
}

func (c *client) tools() {
	tools := c.listTools()
	for len(tools) == 0 { // a server that is slow to start has none yet
		c.next(c.changed)
		tools = c.listTools()
	}
	slices.SortFunc(tools, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range tools {
		n := t.Name
		short := strings.TrimPrefix(n, *name)
		if strings.HasPrefix(short, "toggle-") { // these have an hour of their own
			continue
		}
		args := arguments[short]
		if args == nil {
			args = map[string]any{}
		}
		r, err := c.s.CallTool(c.ctx, &mcp.CallToolParams{Name: n, Arguments: args})
		if short == "get-env" { // the servers have different ones
			r = nil
		}
		say("call "+n, r, err)
	}
	r, err := c.s.CallTool(c.ctx, &mcp.CallToolParams{Name: *name + "get-sum", Arguments: map[string]any{"a": "one"}})
	say("call with bad arguments", r, err)
}

func (c *client) listTools() []*mcp.Tool {
	return own("tool", *name, c.s.Tools(c.ctx, nil), func(t *mcp.Tool) string { return t.Name })
}

// longCall has progress, and ends a call after its first.
func (c *client) longCall() {
	p := &mcp.CallToolParams{Name: *name + "trigger-long-running-operation", Arguments: map[string]any{"duration": 0.3, "steps": 3}}
	p.SetProgressToken("token")
	r, err := c.s.CallTool(c.ctx, p)
	say("call with progress", r, err)
	for range 3 {
		say("progress", c.next(c.progress), nil)
	}
	p = &mcp.CallToolParams{Name: *name + "trigger-long-running-operation", Arguments: map[string]any{"duration": 50, "steps": 500}}
	p.SetProgressToken("another")
	ctx, cancel := context.WithCancel(c.ctx)
	go func() {
		c.next(c.progress)
		cancel()
	}()
	_, err = c.s.CallTool(ctx, p)
	say("cancelled", err != nil && ctx.Err() != nil, nil)
}

// next waits for something that the server sends of its own accord.
func (c *client) next(from chan string) string {
	select {
	case s := <-from:
		return s
	case <-c.ctx.Done():
		log.Fatal("the server sends nothing")
		return ""
	}
}

func (c *client) resources() {
	var uris []string
	for _, r := range own("resource", *uri, c.s.Resources(c.ctx, nil), func(r *mcp.Resource) string { return r.URI }) {
		uris = append(uris, r.URI)
	}
	own("template", *uri, c.s.ResourceTemplates(c.ctx, nil), func(t *mcp.ResourceTemplate) string { return t.URITemplate })
	text := *uri + "demo://resource/dynamic/text/1"
	for _, u := range append(uris, text, *uri+"demo://resource/dynamic/blob/2", *uri+"demo://none") {
		r, err := c.s.ReadResource(c.ctx, &mcp.ReadResourceParams{URI: u})
		say("read "+u, r, err)
	}
	say("subscribe", nil, c.s.Subscribe(c.ctx, &mcp.SubscribeParams{URI: text}))
	c.toggle("toggle-subscriber-updates")
	say("updated", c.next(c.updated), nil)
	c.toggle("toggle-subscriber-updates")
	say("unsubscribe", nil, c.s.Unsubscribe(c.ctx, &mcp.UnsubscribeParams{URI: text}))
}

func (c *client) toggle(tool string) {
	r, err := c.s.CallTool(c.ctx, &mcp.CallToolParams{Name: *name + tool, Arguments: map[string]any{}})
	say("call "+tool, r != nil && !r.IsError, err)
}

func (c *client) prompts() {
	all := own("prompt", *name, c.s.Prompts(c.ctx, nil), func(p *mcp.Prompt) string { return p.Name })
	values := map[string]string{"city": "Ghent", "department": "Sales", "name": "David", "resourceType": "Text", "resourceId": "1"}
	for _, p := range all {
		args := map[string]string{}
		for _, a := range p.Arguments {
			if v := values[a.Name]; v != "" {
				args[a.Name] = v
			}
		}
		r, err := c.s.GetPrompt(c.ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
		say("get "+p.Name, r, err)
	}
}

func (c *client) complete() {
	for what, p := range map[string]*mcp.CompleteParams{
		"complete prompt": {
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: *name + "completable-prompt"},
			Argument: mcp.CompleteParamsArgument{Name: "department", Value: "S"},
		},
		"complete in context": {
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: *name + "completable-prompt"},
			Argument: mcp.CompleteParamsArgument{Name: "name", Value: ""},
			Context:  &mcp.CompleteContext{Arguments: map[string]string{"department": "Sales"}},
		},
		"complete resource": {
			Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: *uri + "demo://resource/dynamic/text/{resourceId}"},
			Argument: mcp.CompleteParamsArgument{Name: "resourceId", Value: "1"},
		},
	} {
		r, err := c.s.Complete(c.ctx, p)
		say(what, r, err)
	}
}

func (c *client) logging() {
	say("level", nil, c.s.SetLoggingLevel(c.ctx, &mcp.SetLoggingLevelParams{Level: "debug"}))
	c.toggle("toggle-simulated-logging")
	c.next(c.logs)
	say("logged", true, nil)
	c.toggle("toggle-simulated-logging")
	if err := c.s.Ping(c.ctx, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		say("ping", nil, err)
	}
}
