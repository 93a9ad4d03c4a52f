package hostmcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/cmd/hutchd/sandbox"
	hutchtree "hutch/cmd/hutchd/tree"
	"hutch/fs"
	"hutch/fs/ninep"
	"hutch/relay/agent"
	"hutch/vmm"
	"hutch/vmm/vmmtest"
)

// A site is hutchd's tree over 9P, with machines whose commands are processes
// of the host.
type site struct {
	t    testing.TB
	addr string
}

func guest(ctx context.Context, g vmmtest.Guest) {
	a, err := agent.New(agent.Config{Dial: func(ctx context.Context) (net.Conn, error) { return g.Dial(ctx, vmm.PortAgent) }})
	if err == nil {
		a.Run(ctx)
	}
}

func newSite(t testing.TB) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "hutch-mcp-") // the name of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{t: t, addr: "unix!" + filepath.Join(dir, "9p")}
	s.serve(dir)
	return s
}

// serve serves the tree until the test ends.
func (s *site) serve(dir string) {
	s.t.Helper()
	state := filepath.Join(dir, "state")
	log := fs.NewLog(1 << 20)
	served, err := hutchtree.New(hutchtree.Config{
		Config: sandbox.Config{State: state, Drivers: []vmm.Driver{&vmmtest.Driver{Guest: guest}}, Log: slog.New(slog.NewTextHandler(log, nil))},
		Level:  new(slog.LevelVar), ServiceLog: log,
		CrashLog: filepath.Join(state, "panics"), Shutdown: func() {}, Mount: func() string { return "none" },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := ninep.Listen(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- (&ninep.Server{Root: served.Root()}).Serve(ctx, l) }()
	s.t.Cleanup(func() {
		cancel()
		<-ended
		served.Close(context.Background())
	})
}

// pipes starts a server and returns its standard input and output.
func (s *site) pipes(c Config) (in io.WriteCloser, out io.ReadCloser) {
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	c.Address, c.Log = s.addr, io.Discard
	if c.Prefix == "" {
		c.Prefix = "hutch_"
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := Serve(ctx, c, fromClient, toClient); err != nil {
			s.t.Errorf("serve: %v", err)
		}
		toClient.Close()
	})
	s.t.Cleanup(func() {
		in.Close()
		cancel()
		out.Close()
		serving.Wait()
	})
	return in, out
}

// A peer is the official SDK's client.
type peer struct {
	t testing.TB
	*mcp.ClientSession
	schemas  map[string]*jsonschema.Resolved // of results, by tool
	progress chan *mcp.ProgressNotificationParams
	updated  chan string
}

func (s *site) connect() *peer {
	s.t.Helper()
	p := &peer{t: s.t, progress: make(chan *mcp.ProgressNotificationParams, 1000), updated: make(chan string, 1000)}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) { p.progress <- q.Params },
		ResourceUpdatedHandler:      func(_ context.Context, q *mcp.ResourceUpdatedNotificationRequest) { p.updated <- q.Params.URI },
	})
	in, out := s.pipes(Config{Version: "test"})
	session, err := c.Connect(s.t.Context(), &mcp.IOTransport{Reader: out, Writer: in}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		s.t.Fatal(err)
	}
	p.ClientSession = session
	p.learn()
	return p
}

// learn gets the schemas of the tools' results.
func (p *peer) learn() {
	list, err := p.ListTools(p.t.Context(), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.schemas = map[string]*jsonschema.Resolved{}
	for _, tool := range list.Tools {
		var s jsonschema.Schema
		if err := json.Unmarshal([]byte(plain(p.t, tool.OutputSchema)), &s); err != nil {
			p.t.Fatalf("%s: %v", tool.Name, err)
		}
		if p.schemas[tool.Name], err = s.Resolve(nil); err != nil {
			p.t.Fatalf("%s: %v", tool.Name, err)
		}
	}
}

type args = map[string]any

// call calls a tool, which is to succeed, and returns what it tells.
func (p *peer) call(name string, a args) map[string]any {
	p.t.Helper()
	r, err := p.CallTool(p.t.Context(), &mcp.CallToolParams{Name: "hutch_" + name, Arguments: a})
	if err != nil {
		p.t.Fatalf("%s %v: %v", name, a, err)
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError || len(r.Content) != 1 {
		p.t.Fatalf("%s %v: %s", name, a, text)
	}
	var told map[string]any
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		p.t.Fatalf("%s: %v in %s", name, err, text)
	}
	if a, b := plain(p.t, told), plain(p.t, r.StructuredContent); a != b {
		p.t.Errorf("%s: text %s, structured %s", name, a, b)
	}
	if err := p.schemas["hutch_"+name].Validate(told); err != nil {
		p.t.Errorf("%s: %s does not fit the schema: %v", name, text, err)
	}
	return told
}

func plain(t testing.TB, v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// fails calls a tool, which is to fail with a text that begins with want.
func (p *peer) fails(name string, a args, want string) {
	p.t.Helper()
	r, err := p.CallTool(p.t.Context(), &mcp.CallToolParams{Name: "hutch_" + name, Arguments: a})
	if err != nil {
		p.t.Fatalf("%s %v: %v", name, a, err)
	}
	if text := r.Content[0].(*mcp.TextContent).Text; !r.IsError || !strings.HasPrefix(text, want) {
		p.t.Errorf("%s %v: error %v, %q, want %q", name, a, r.IsError, text, want)
	}
}
