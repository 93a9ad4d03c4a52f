//go:build linux

package main_test

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hutch/aggd/oauth/oauthtest"
	"hutch/fs/need"
)

// notes serves an MCP server of the SDK's to those who have a token, and counts the
// sessions that it makes.
func notes(t *testing.T) (s *oauthtest.Server, sessions *atomic.Int32) {
	s, sessions = oauthtest.New(t), new(atomic.Int32)
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) { sessions.Add(1) },
	})
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	s.Handle["/mcp"] = s.Guard(h).ServeHTTP
	return s, sessions
}

// greets calls the tool of the server notes.
func (s *service) greets(server string) {
	s.t.Helper()
	if text := s.use("servers/"+server+"/tools/greet", `{"name":"you"}`); !strings.Contains(text, "hello you") {
		s.t.Errorf("the greeting is %s", text)
	}
}

// is waits for a server to be in a state.
func (s *service) is(server, state string) {
	s.t.Helper()
	poll(s.t, server+" to be "+state, func() bool { return strings.HasPrefix(s.read("servers/"+server+"/status"), state+"\n") })
}

// visit opens what the login of a server waits for in a browser, when that is there.
func (s *service) visit(a *oauthtest.Server, server string) {
	var line string
	poll(s.t, "the login", func() bool { line = s.read("servers/" + server + "/login"); return line != "" })
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "url ")
	if !ok {
		s.t.Errorf("the login is %s", line)
	}
	if code, err := a.Visit(s.t.Context(), at); err != nil || code != http.StatusOK {
		s.t.Errorf("the browser ends at HTTP %d, %v", code, err)
	}
}

// TestServerLogin has a remote server that wants a token be run, logged in to, used
// over renewals and refusals, and logged out of.
func TestServerLogin(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	a, sessions := notes(t)
	s := serve(t, false)
	s.mkdir("servers/notes")
	err := s.tryWrite("servers/notes/ctl", "run "+a.MCP+"\n")
	if text := s.why(); err == nil || !strings.Contains(text, "hutch server login notes") {
		t.Fatalf("run without a login: %v, %s", err, text)
	}
	if text := s.read("servers/notes/status"); !strings.HasPrefix(text, "unauthenticated\n") || !strings.Contains(text, "hutch server login notes") {
		t.Errorf("the status is %s", text)
	}

	login := s.command("hutch", "server", "login", "notes")
	var out strings.Builder
	login.Stdout, login.Stderr = &out, &out
	if err := login.Start(); err != nil {
		t.Fatal(err)
	}
	s.visit(a, "notes")
	if err := login.Wait(); err != nil {
		t.Fatalf("hutch server login: %v: %s", err, out.String())
	}
	s.is("notes", "running")
	s.greets("notes")
	if text := s.read("servers/notes/login"); text != "" {
		t.Errorf("the login that is done waits for %s", text)
	}

	made := sessions.Load()
	a.Revoke() // as when it ends before its time
	s.greets("notes")
	if n := sessions.Load(); n != made {
		t.Errorf("another token has cost %d sessions", n-made)
	}
	s.is("notes", "running")

	s.signal(syscall.SIGKILL)
	s.start()
	s.is("notes", "running")
	s.greets("notes")

	a.Ill(true)
	a.Revoke()
	s.is("notes", "auth_retrying") // once it is asked whether it is well
	a.Ill(false)
	s.is("notes", "running")
	s.greets("notes")

	a.RevokeAll()
	s.is("notes", "unauthenticated")
	s.byCode(a, "notes")
	s.greets("notes")
	s.tokensNowhere(a)

	s.write("servers/notes/ctl", "logout\n")
	s.is("notes", "unauthenticated")
	if err := s.tryWrite("servers/notes/ctl", "start\n"); err == nil {
		t.Error("it started after a logout")
	}
	s.write("servers/notes/ctl", "stop\n")
	s.is("notes", "stopped")
	for _, verb := range []string{"logout\n", "stop\n"} { // end a login that nobody wants any more
		ended := make(chan error, 1)
		go func() { ended <- s.tryWrite("servers/notes/ctl", "login\n") }()
		poll(t, "the login", func() bool { return s.read("servers/notes/login") != "" })
		s.write("servers/notes/ctl", verb)
		if err := <-ended; err == nil {
			t.Error("the login that was ended has done")
		}
		if text := s.read("servers/notes/err") + s.read("servers/notes/login"); !strings.Contains(text, "the login was ended") || strings.Contains(text, "url ") {
			t.Errorf("after %q: %s", verb, text)
		}
	}
	s.byCode(a, "notes")
	s.is("notes", "stopped")
	if err := s.client().Remove("servers/notes"); err != nil {
		t.Fatal(err)
	}
	s.mkdir("servers/notes") // of which nothing is known any more
	if err := s.tryWrite("servers/notes/ctl", "run "+a.MCP+"\n"); err == nil {
		t.Error("it runs by the login of a server that was removed")
	}
	for _, bad := range []string{"login phone\n", "set remote_auth_config.oauth_params.state x\nlogin\n"} {
		if err := s.tryWrite("servers/notes/ctl", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// byCode logs in to a server by a code.
func (s *service) byCode(a *oauthtest.Server, server string) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.tryWrite("servers/"+server+"/ctl", "login device\n") }()
	poll(s.t, "the code", func() bool { return s.read("servers/"+server+"/login") == "code WDJB-MJHT at "+a.URL+"/verify\n" })
	if err := <-done; err != nil {
		s.t.Fatalf("login device: %v: %s", err, s.why())
	}
}

// tokensNowhere looks for tokens in the state folder, the logs and what the tree shows.
func (s *service) tokensNowhere(a *oauthtest.Server) {
	s.t.Helper()
	places := map[string]string{"log": s.log()}
	for _, name := range []string{"servers/notes/status", "servers/notes/config", "servers/notes/log/server", "servers/notes/log/audit", "servers/notes/mcp/servers", "servers/notes/err", "log/service"} {
		places[name] = s.read(name)
	}
	filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			places[path] = string(text)
		}
		return nil
	})
	if names, err := s.client().ReadDir("secrets"); len(names) > 0 || err != nil {
		s.t.Errorf("the secrets are %v, %v", names, err)
	}
	for place, text := range places {
		for _, token := range a.Given() {
			if strings.Contains(text, token) {
				s.t.Errorf("%s is in %s", token, place)
			}
		}
	}
}

// TestLoginMember has a server that runs by a login join a group: it is shown another
// token still when it refuses the one that it has.
func TestLoginMember(t *testing.T) {
	a, _ := notes(t)
	s := serve(t, false)
	s.mkdir("servers/notes")
	s.tryWrite("servers/notes/ctl", "run "+a.MCP+"\n")
	s.byCode(a, "notes")
	s.is("notes", "running")
	s.greets("notes")
	s.mkdir("groups/db")
	s.write("groups/db/members", "notes\n")
	a.Revoke()
	poll(t, "greeting by another token", func() bool { // a call while the group is told of it fails
		f := s.open("servers/notes/tools/greet/call", os.O_RDWR)
		defer f.Close()
		p := make([]byte, 1<<10)
		_, err := f.WriteAt([]byte("{\"name\":\"you\"}\n"), 0)
		n, _ := f.ReadAt(p, 0)
		return err == nil && strings.Contains(string(p[:n]), "hello you")
	})
}
