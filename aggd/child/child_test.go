package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs"
)

// The test binary is also the aggregator that it starts, and the servers of that.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "-programs":
		if len(os.Environ()) > 0 {
			fmt.Fprintln(os.Stderr, "environment:", os.Environ())
		}
		if filepath.Base(os.Args[0]) == "hang" {
			select {}
		}
		fds, _ := os.ReadDir("/proc/self/fd")
		fmt.Fprintln(os.Stderr, "descriptors", len(fds))
		syscall.SetNonblock(0, true)
		c, err := programs.NewClient(3)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := aggd.Run(context.Background(), aggd.Config{Programs: c, Log: os.Stderr, ListWait: time.Minute}, os.NewFile(0, "stdin"), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) > 1 && os.Args[1] == "fake-server":
		serve()
	default:
		os.Exit(m.Run())
	}
}

func serve() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		id, params := rawjson.Get(line, "id"), rawjson.Get(line, "params")
		token := rawjson.Get(params, "_meta", "progressToken")
		switch method, name := rawjson.GetString(line, "method"), rawjson.GetString(params, "name"); {
		case method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"caps":%s}}`+"\n", id, rawjson.Get(params, "capabilities"))
		case method == "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","big":12345678901234567890,"inputSchema":{"type":"object"}}]}}`+"\n", id)
		case strings.HasSuffix(method, "/list"):
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"resources":[{"uri":"u:","name":"u"}],"resourceTemplates":[{"uriTemplate":"u:{x}","name":"u"}],"prompts":[{"name":"p"}]}}`+"\n", id)
		case method == "" || id == nil:
			if method != "" && method != "notifications/initialized" {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"got":%s}}`+"\n", rawjson.Quote(method))
			}
			if rawjson.Get(line, "result") != nil {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"got":%s}}`+"\n", rawjson.Get(line, "result"))
			}
		case name == "hang":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"hanging":true}}` + "\n")
		case name == "big":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":"%s"}`+"\n", id, strings.Repeat("x", 17<<20))
		case name == "parent":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"parent":%d,"self":%d}}`+"\n", id, os.Getppid(), os.Getpid())
		case name == "ask":
			fmt.Printf(`{"jsonrpc":"2.0","id":"mine","method":"roots/list"}` + "\n")
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
		default:
			if token != nil {
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", token)
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"echo":%s}}`+"\n", id, params)
		}
	}
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func fake(t testing.TB, name string) wire.Server {
	return wire.Server{Name: name, Enabled: true, Program: wire.Program{Command: self(t), Args: []string{"fake-server"}}, ConnectTimeout: wire.Duration(time.Minute)}
}

// record keeps what a child tells its host.
type record struct {
	notes chan wire.Notification
	downs chan error
	ups   chan bool

	mu  sync.Mutex
	log strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func begin(t testing.TB, cfg Config) (*Child, *record) {
	r := &record{notes: make(chan wire.Notification, 1000), downs: make(chan error, 1000), ups: make(chan bool, 1000)}
	if cfg.Path == "" {
		cfg.Path = self(t)
	}
	if cfg.Request == nil {
		cfg.Request = func(context.Context, wire.ServerRequest) (result, rpcError json.RawMessage) {
			return nil, json.RawMessage(`{"code":-32601,"message":"method not found"}`)
		}
	}
	cfg.Log = r
	cfg.Notify = func(n wire.Notification) { r.notes <- n }
	cfg.Down = func(err error) { r.downs <- err }
	cfg.Up = func() { r.ups <- true }
	c, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			t.Log(r.text())
		}
	})
	return c, r
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func tool(name string) wire.Call {
	return wire.Call{Server: "s", Method: "tools/call", Params: json.RawMessage(`{"name":"` + name + `"}`)}
}

func TestCatalogAndCalls(t *testing.T) {
	c, r := begin(t, Config{Servers: []wire.Server{fake(t, "s")}})
	ctx := soon(t)
	tools, err := c.List(ctx, wire.Tools, "")
	if err != nil || len(tools) != 1 || string(tools[0].Raw) != `{"name":"t","big":12345678901234567890,"inputSchema":{"type":"object"}}` {
		t.Errorf("%v %v", tools, err)
	}
	resources, err1 := c.List(ctx, wire.Resources, "")
	templates, err2 := c.List(ctx, wire.Templates, "")
	prompts, err3 := c.List(ctx, wire.Prompts, "")
	if len(resources) != 1 || len(templates) != 1 || len(prompts) != 1 || errors.Join(err1, err2, err3) != nil {
		t.Errorf("%v %v %v %v", resources, templates, prompts, errors.Join(err1, err2, err3))
	}
	states, err := c.Servers(ctx)
	if err != nil || len(states) != 1 || states[0].State != wire.Connected {
		t.Errorf("%+v %v", states, err)
	}
	params := json.RawMessage("{ \"x\" :\n12345678901234567890,\"_meta\":{\"progressToken\":\"p\"}}")
	var progress []string
	answer, err := c.Call(ctx, wire.Call{Server: "s", Method: "tools/call", Params: params, Owner: "me",
		Progress: func(p json.RawMessage) { progress = append(progress, string(p)) }})
	want := `{"echo":{ "x" : 12345678901234567890,"_meta":{"progressToken":1}}}`
	got := rawjson.Set(answer.Result, []byte("1"), "echo", "_meta", "progressToken")
	if string(got) != want || answer.Error != nil || err != nil {
		t.Errorf("%s %s %v, want %s", answer.Result, answer.Error, err, want)
	}
	if len(progress) != 1 || progress[0] != `{"progressToken":"p","progress":1}` {
		t.Errorf("progress %v", progress)
	}
	if _, err := c.Call(ctx, wire.Call{Server: "nobody", Method: "x"}); fs.Errno(err) != syscall.EIO || !strings.Contains(err.Error(), "server not found: nobody") {
		t.Error(err)
	}
	if _, err := c.Call(ctx, wire.Call{Server: "s", Method: "x", Params: json.RawMessage(`{"`)}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	var long *wire.TooLong
	if _, err := c.Call(ctx, wire.Call{Server: "s", Method: "x", Params: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`)}); !errors.As(err, &long) {
		t.Error(err)
	}
	if _, err := c.Call(ctx, tool("big")); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Error(err)
	}
	if err := c.Notify(ctx, "", "s", "notifications/x", nil); err != nil {
		t.Error(err)
	}
	if n := <-r.notes; n.Server != "s" || string(n.Params) != `{"got":"notifications/x"}` {
		t.Errorf("%+v", n)
	}
	if strings.Contains(r.text(), "environment:") {
		t.Error("the child has an environment: " + r.text())
	}
}

func TestCancelAndOwner(t *testing.T) {
	c, r := begin(t, Config{Servers: []wire.Server{fake(t, "s")}})
	ctx, cancel := context.WithCancelCause(soon(t))
	done := make(chan error)
	call := tool("hang")
	call.Owner = 42
	go func() {
		_, err := c.Call(ctx, call)
		done <- err
	}()
	if n := <-r.notes; n.Owner != 42 {
		t.Errorf("owner %v", n.Owner)
	}
	why := errors.New("tired")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Error(err)
	}
	if n := <-r.notes; string(n.Params) != `{"got":"notifications/cancelled"}` {
		t.Errorf("%+v", n)
	}
}

func TestRequests(t *testing.T) {
	asked := make(chan wire.ServerRequest, 1)
	c, r := begin(t, Config{
		Servers: []wire.Server{fake(t, "s")},
		Request: func(_ context.Context, q wire.ServerRequest) (json.RawMessage, json.RawMessage) {
			asked <- q
			return json.RawMessage(`{"roots":[12345678901234567890]}`), nil
		},
	})
	ctx := soon(t)
	key, err := c.Client(wire.ClientParams{Capabilities: json.RawMessage(`{"roots":{}}`)})
	if err != nil || key == "" {
		t.Fatal(key, err)
	}
	call := tool("ask")
	call.Client, call.Owner = key, "me"
	if _, err := c.Call(ctx, call); err != nil {
		t.Fatal(err)
	}
	if q := <-asked; q.Method != "roots/list" || q.Client != key || q.Server != "s" {
		t.Errorf("%+v", q)
	}
	if n := <-r.notes; string(n.Params) != `{"got":{"roots":[12345678901234567890]}}` {
		t.Errorf("%+v", n)
	}
	if _, err := c.Client(wire.ClientParams{Capabilities: json.RawMessage(`[]`)}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	for i := range wire.MaxClients {
		_, err = c.Client(wire.ClientParams{Capabilities: json.RawMessage(fmt.Sprintf(`{"x":%d}`, i))})
	}
	if !errors.Is(err, fs.ErrNoSpace) {
		t.Errorf("one set too many: %v", err)
	}
}

// TestDeath kills the child in the middle of a call: the call fails and says so,
// nothing of the child is left, and the next call finds a new one that knows the
// declared clients.
func TestDeath(t *testing.T) {
	c, r := begin(t, Config{Servers: []wire.Server{fake(t, "s")}})
	ctx := soon(t)
	key, err := c.Client(wire.ClientParams{Capabilities: json.RawMessage(`{"roots":{}}`)})
	if err != nil {
		t.Fatal(err)
	}
	<-r.ups
	for range 3 {
		call := tool("parent")
		call.Client = key
		got, err := c.Call(ctx, call)
		if err != nil {
			t.Fatal(err)
		}
		var pids struct{ Parent, Self int }
		json.Unmarshal(got.Result, &pids)
		aggregator := c.PID()
		if got := c.Programs(); pids.Parent != os.Getpid() || !slices.Contains(got, programs.Process{Server: "s", PID: pids.Self}) {
			t.Errorf("server %d of %d: not started here, or not among %v", pids.Self, pids.Parent, got)
		}
		done := make(chan error)
		go func() {
			call := tool("hang")
			call.Client = key
			_, err := c.Call(ctx, call)
			done <- err
		}()
		<-r.notes
		syscall.Kill(aggregator, syscall.SIGKILL)
		if err := <-done; err == nil || !strings.Contains(err.Error(), "the aggregator died (signal: killed)") {
			t.Error(err)
		}
		if err := <-r.downs; !errors.Is(err, fs.ErrIO) {
			t.Error(err)
		}
		<-r.ups
		for running(pids.Self) || running(aggregator) { // killed they are, but may not have had the time to die
			if ctx.Err() != nil {
				t.Fatal("the server outlived the aggregator")
			}
		}
	}
	c.Close()
	if got := c.PID(); got != 0 {
		t.Errorf("PID %d after Close", got)
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aggd")
	c, r := begin(t, Config{Path: path, Servers: []wire.Server{fake(t, "s")}})
	ctx := soon(t)
	if err := <-r.downs; !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if tools, err := c.List(ctx, wire.Tools, ""); len(tools) != 0 || err != nil {
		t.Error(tools, err)
	}
	if _, err := c.Call(ctx, tool("x")); err == nil || !strings.Contains(err.Error(), "the aggregator "+path+" is missing") {
		t.Error(err)
	}
	if states, err := c.Servers(ctx); err != nil || len(states) != 1 || states[0].State != wire.Failed || !strings.Contains(states[0].Error, "missing") {
		t.Error(states, err)
	}
	if err := c.Refresh(ctx, nil); err != nil {
		t.Error(err)
	}
	if got := c.PID(); got != 0 {
		t.Errorf("PID %d of nothing", got)
	}
	if err := os.Symlink(self(t), path); err != nil { // it comes later
		t.Fatal(err)
	}
	<-r.ups
	if states, err := c.Servers(ctx); err != nil || len(states) != 0 {
		t.Error(states, err)
	}
}

// TestServersTooLong says why a child has no servers whose definitions are over
// the limit of a line.
func TestServersTooLong(t *testing.T) {
	long := wire.Server{Name: "s", Enabled: true, URL: "http://127.0.0.1/" + strings.Repeat("x", wire.MaxRequest)}
	c, r := begin(t, Config{Servers: []wire.Server{long}})
	if err := <-r.downs; !strings.Contains(err.Error(), "the definitions of the servers: ") || !strings.Contains(err.Error(), "over the limit of 1048576") {
		t.Error(err)
	}
	if err := c.Refresh(soon(t), nil); err != nil && !strings.Contains(err.Error(), "over the limit") {
		t.Error(err)
	}
}

func TestRefresh(t *testing.T) {
	c, _ := begin(t, Config{})
	ctx := soon(t)
	if err := c.Refresh(ctx, []wire.Server{fake(t, "s")}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Call(ctx, tool("x")); err != nil || string(got.Result) != `{"echo":{"name":"x"}}` {
		t.Error(string(got.Result), err)
	}
}

// TestHangingChild has a child that neither answers nor ends.
func TestHangingChild(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hang")
	if err := os.Symlink(self(t), path); err != nil {
		t.Fatal(err)
	}
	c, r := begin(t, Config{Path: path})
	<-r.ups
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, tool("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	c.Close()
	if _, err := c.Call(context.Background(), tool("x")); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Error(err)
	}
}
