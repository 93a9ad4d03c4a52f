//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// hutch runs the hutch command, which has to do what it is told.
func (s *service) hutch(args ...string) string {
	s.t.Helper()
	out, err := s.command("hutch", args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("hutch %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// refused runs the hutch command, which has to fail and say why.
func (s *service) refused(why string, args ...string) {
	s.t.Helper()
	if out, err := s.command("hutch", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), why) {
		s.t.Errorf("hutch %q: %v: %s, want %s", args, err, out, why)
	}
}

// TestServerCommand has an entry of the registry run by one command, a client of the
// host be told of it, and what that starts by its own file be the server.
func TestServerCommand(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	need.Everything(t) // and so npx
	s := newService(t, false)
	home := filepath.Join(s.dir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.as = func(cmd *exec.Cmd) {
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, "HOME="+home)
	}
	s.start()
	s.refusals()
	s.write("secrets/token", "of-the-test")
	if out := s.hutch("server", "-l", "team=docs", "-e", "MARK=told", "-secret", "token,target=API_TOKEN", "run", "everything", "--", "stdio"); !strings.HasSuffix(out, "everything\n") {
		t.Errorf("hutch server run prints %s", out)
	}
	s.sumBy("everything")
	if out := s.hutch("server", "-name", "few", "-tools", "echo,ecko", "run", "everything"); !strings.Contains(out, "hutch: tools_filter.1: few has no tool \"ecko\"\n") {
		t.Errorf("of a tool that is not there hutch server run says %s", out)
	}
	s.hutch("server", "rm", "few")
	slow := s.command("hutch", "server", "restart", "everything")
	master, screen := onTerminal(t, slow)
	defer master.Close()
	screen.until("everything is starting …")
	if screen.rest(); slow.Wait() != nil || strings.Contains(screen.printed, "s everything: ") || strings.HasSuffix(screen.printed, "s") {
		t.Errorf("on a terminal, restart prints %q", screen.printed)
	}
	if text := s.use("servers/everything/tools/get-env", `{}`); !strings.Contains(text, `\"API_TOKEN\": \"[redacted]\"`) {
		t.Errorf("its environment is %s", text)
	}
	s.refused(`no vm "everything", but there is servers/everything; hutch server starts, stops and removes it, and its sandbox is the VM server-everything`, "stop", "everything")
	s.refused("hutch server starts, stops and removes servers, as hutch server stop everything", "stop", "servers/everything")
	if out := s.hutch("timeline", "server-everything"); !strings.Contains(out, "hutch: VM server-everything is the sandbox of a server: what is asked of that is in servers/everything\n") {
		t.Errorf("the timeline of a sandbox is %s", out)
	}
	s.hutch("9p", "mkdir", "servers/server-everything")
	s.refused("write servers/server-everything or vm/server-everything", "timeline", "server-everything")
	s.hutch("server", "rm", "server-everything")
	if text := s.hutch("server", "export", "everything") + s.read("servers/everything/log/audit"); strings.Contains(text, "of-the-test") {
		t.Errorf("the secret is in %s", text)
	}
	if out := s.hutch("server", "-format", "json", "-l", "team=docs", "ls"); !strings.Contains(out, `"name":"everything","package":"npx://@modelcontextprotocol/server-everything@`) ||
		!strings.Contains(out, `"status":"running"`) || !strings.Contains(out, `"get-sum"`) || !strings.Contains(out, `"group":"default"`) {
		t.Errorf("hutch server ls prints %s", out)
	}
	if out := s.hutch("server", "ls"); !regexp.MustCompile(`\neverything +running +default +stdio +[1-9][0-9]* +[0-9.]+MiB +npx:`).MatchString(out) {
		t.Errorf("hutch server ls prints %s", out)
	}
	if out := s.hutch("server", "-l", "team=other", "ls"); strings.Contains(out, "everything") {
		t.Errorf("hutch server ls prints %s", out)
	}
	s.hutch("client", "add", "cursor", "servers/everything")
	file, err := os.ReadFile(filepath.Join(home, ".cursor/mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.callBy(file, "everything")
	s.callBy([]byte(s.hutch("server", "-format", "mcpservers", "ls")), "everything")
	if text := rows(s.read("servers/everything/log/audit")); strings.Count(text, `"tool_name":"get-sum"`) != 3 {
		t.Errorf("the calls are %s", text)
	}
	s.callTool(filepath.Join(s.bin, "hutch"), []string{"-s", s.addr, "mcp-session", "groups/default"}, "everything_get-sum")
	if out := s.hutch("call", "servers/everything", "get-sum", `{"a":2,"b":3}`); out != "The sum of 2 and 3 is 5.\n" {
		t.Errorf("hutch call prints %s", out)
	}
	if out := s.hutch("completion", "words", "call", "servers/everything", "get-s"); !strings.Contains(out, "get-sum\n") {
		t.Errorf("of its tools are known %s", out)
	}
	s.refused("get-sum: did you mean everything_get-sum?", "call", "groups/default", "get-sum")
	s.refused(`no group "defalt": did you mean default?`, "call", "groups/defalt", "get-sum")
	s.refused(`no AI client "codx": did you mean codex?`, "client", "add", "codx", "servers/everything")
	s.refused("did you mean servers/everything?", "client", "add", "codex", "everything")
	s.refused("MCP error", "call", "groups/default", "everything_get-sum", `{"a":"two"}`)
	saved := filepath.Join(s.dir, "saved.json")
	s.hutch("server", "export", "everything", saved)
	if out := s.hutch("server", "-name", "again", "-group", "default", "import", saved); out != "again\n" || s.hutch("server", "export", "again") != strings.Replace(s.hutch("server", "export", "everything"), `"name": "everything"`, `"name": "again"`, 1) {
		t.Errorf("hutch server import prints %s, and makes %s", out, s.hutch("server", "export", "again"))
	}
	s.hutch("server", "rm", "again")
	if out := s.hutch("server", "logs", "everything"); !strings.Contains(out, "Starting default (STDIO) server") {
		t.Errorf("hutch server logs prints %s", out)
	}
	if out := s.hutch("server", "logs", "everything", "audit"); !strings.Contains(out, `"tool_name":"get-sum"`) {
		t.Errorf("hutch server logs prints %s", out)
	}
	s.refused("there are audit", "server", "logs", "everything", "nolog")
	s.hutch("server", "stop", "everything")
	s.refused("does not run, it is stopped: hutch server start", "mcp-session", "servers/everything")
}

// refusals are what the command says of what cannot be done, of which nothing is left.
func (s *service) refusals() {
	s.t.Helper()
	bad := func(text string) string {
		file := filepath.Join(s.dir, "bad.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		return file
	}
	s.refused("entry filesystem needs folder (a folder that it may read and write; more of them may follow): write it behind the name", "server", "run", "filesystem")
	s.refused(`schema_version is "v9"`, "server", "import", bad(`{"schema_version":"v9","image":"npx://x"}`))
	s.refused("holds what looks like a secret", "server", "import", bad(`{"image":"npx://x","env_vars":{"API_TOKEN":"hunter2"}}`))
	s.refused("holds what looks like a secret", "server", "-e", "API_TOKEN=hunter2", "run", "npx://x")
	s.refused("holds what looks like a secret", "server", "-keep", "-name", "secretive", "import", bad(`{"image":"npx://x","env_vars":{"API_TOKEN":"hunter2"}}`))
	s.refused("holds what looks like a secret", "server", "set", "secretive", "env_vars.API_TOKEN", "hunter2")
	const key = "ghp_zbcdefghijklmnopqrstuvwxyz0123456789"
	s.refused("holds what looks like a secret", "server", "-keep", "-name", "tokened", "-bearer", key, "run", "http://127.0.0.1:1/mcp")
	s.refused("store it with hutch secret set NAME", "secret", "set", key)
	if out := s.hutch("9p", "read", "servers/tokened/err") + s.hutch("9p", "read", "servers/tokened/status"); strings.Contains(out, key) {
		s.t.Errorf("the secret that was refused is told: %s", out)
	}
	s.hutch("server", "rm", "tokened")
	if out, err := exec.Command("grep", "-rlE", "hunter2|"+key, filepath.Join(s.dir, "state")).CombinedOutput(); err == nil {
		s.t.Errorf("the secret that was refused is kept in %s", out)
	}
	s.hutch("server", "rm", "secretive")
	s.refused(`no registry entry "memry": did you mean memory; as an image: `, "server", "run", "memry")
	s.refused("; a package has npx://, uvx:// or go:// before its name", "server", "run", "memry")
	if out := s.hutch("images"); strings.Contains(out, "memry") {
		s.t.Errorf("of an image that was not pulled there is left %s", out)
	}
	s.refused("set: write SERVER PATH [VALUE…], as kept tools_filter echo", "server", "set", "kept")
	s.refused("has its flags, and -- ends them", "server", "set", "kept", "cmd_args", "--foo")
	s.refused("want 'NAME: VALUE'", "server", "-header", "X-Key=secret:k", "run", "https://127.0.0.1:1/mcp")
	s.refused("want NAME,… with commas between", "server", "-tools", "a b", "run", "npx://x")
	s.refused("no name can be made of", "server", "run", "npx://builtin")
	s.refused("-e does not go with ls", "server", "-e", "A=b", "ls")
	s.refused("-e does not go with a URL", "server", "-e", "A=b", "run", "https://127.0.0.1:1/mcp")
	s.refused("-transport stdio does not go with a URL", "server", "-transport", "stdio", "run", "https://127.0.0.1:1/mcp")
	s.refused(`no server "nobody"`, "server", "stop", "nobody")
	s.refused(`no verb list: did you mean ls?`, "server", "list")
	s.refused(`no verb stauts: did you mean start?`, "server", "stauts")
	s.refused(`name servers, or say -all or -group GROUP`, "server", "start")
	s.refused(`ls has no use for x`, "server", "ls", "x")
	s.refused(`did you mean group ls?`, "groups")
	s.refused(`no vm "default", but there is groups/default`, "calls", "default")
	s.refused(`no server "nobody"`, "calls", "servers/nobody")
	s.refused(`no group "nobody"; hutch group make nobody`, "timeline", "groups/nobody")
	s.refused(`no server "nobody"`, "sql", "servers/nobody", "SELECT 1")
	s.refused(`no server "nobody"`, "mcp-session", "servers/nobody")
	grants := `{"image":"npx://x","volumes":["/srv:/data:ro"],"permission_profile":{"write":["/srv/w:/w"]},"secrets":["file:/etc/hostname,target=T"],"env_vars":{"E":"file:/etc/issue"}}`
	out := s.hutch("server", "-name", "granted", "import", bad(grants))
	for _, want := range []string{"it sees the folder /srv as /data (ro)\n", "it sees the folder /srv/w as /w (rw)\n", "it gets what is in the file /etc/hostname\n", "it gets what is in the file /etc/issue\n"} {
		if !strings.Contains(out, "hutch: "+want) {
			s.t.Errorf("an import tells %s, want %s", out, want)
		}
	}
	if out := s.hutch("server", "-name", "kept", "import", bad(`{"image":"npx://x","new_field":7}`)); !strings.Contains(out, "hutch: not used: new_field: ") {
		s.t.Errorf("of a field that is not known it says %s", out)
	}
	s.hutch("server", "set", "kept", "tools_filter", "a", "b c")
	s.hutch("server", "set", "kept", "env_vars.A.B", "x y")
	s.hutch("server", "set", "kept", "new_field")
	if out := s.read("servers/kept/config"); out != `{"image":"npx://x","hutch":{"group":false},"tools_filter":["a","b c"],"env_vars":{"A.B":"x y"}}` {
		s.t.Errorf("the config that was set is %s", out)
	}
	s.refused(`no server "nobody"`, "server", "set", "nobody", "tools_filter", "a")
	s.refused(`tools_filter takes no object: write a list`, "server", "set", "kept", "tools_filter", `{"a":1}`)
	s.refused(`file already exists: server "kept"`, "server", "-name", "kept", "run", "npx://x")
	s.hutch("server", "rm", "kept", "granted")
	if out := s.hutch("server", "-a", "ls"); strings.Count(out, "\n") > 1 {
		s.t.Errorf("there is left %s", out)
	}
}

// callBy calls a tool of a server that is started as the file of a client says.
func (s *service) callBy(file []byte, server string) {
	s.t.Helper()
	var says struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(file, &says); err != nil {
		s.t.Fatalf("%v: %s", err, file)
	}
	program := says.MCPServers[server]
	s.callTool(program.Command, program.Args, "get-sum")
}

// callTool calls a tool of the MCP server that a command is.
func (s *service) callTool(command string, args []string, tool string) {
	s.t.Helper()
	cmd := s.user(command, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // nor of where the service is
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cursor","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"a":2,"b":3}}}
`)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The sum of 2 and 3 is 5") {
		s.t.Errorf("%s %q: %v: %s", command, args, err, out)
	}
}

// TestServerRunSays has servers be run that are refused after more than a second: what
// their logs, which go with them, got until then is printed.
func TestServerRunSays(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select { // as long as the command waits for the first time, and some of what it waits for the next
		case <-time.After(1300 * time.Millisecond):
		case <-r.Context().Done():
		}
		http.Error(w, "nothing here", http.StatusNotFound)
	}))
	defer web.Close()
	s := serve(t, false)
	out, err := s.command("hutch", "server", "-name", "slow", "run", web.URL+"/mcp").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "slow: error: ") {
		t.Errorf("hutch server run: %v, %s", err, out)
	}
}

// TestServerUnlisted runs a server whose tools cannot be listed, in a group with one that has
// some: why is told by both, and by the command that lists them.
func TestServerUnlisted(t *testing.T) {
	t.Parallel()
	good := newShifter(t, `{"name":"add","inputSchema":{"type":"object"}}`)
	var mended atomic.Bool
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		var q struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(text, &q); q.Method == "tools/list" && !mended.Load() {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"fetch failed"}}`, q.ID)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		good.ServeHTTP(w, r)
	}))
	defer bad.Close()
	s := serve(t, false)
	const why = "tools/list: "
	if out := s.hutch("server", "-name", "bad", "run", bad.URL+"/mcp"); !strings.Contains(out, "hutch: "+why) || !strings.Contains(out, "fetch failed") {
		t.Errorf("hutch server run prints %s", out)
	}
	s.hutch("server", "-name", "good", "run", good.URL+"/mcp")
	s.has("servers/bad/status", "degraded\n", "\nnote '"+why)
	if out := s.hutch("call", "servers/bad"); !strings.Contains(out, "hutch: "+why) {
		t.Errorf("hutch call prints %s", out)
	}
	if out := s.hutch("call", "groups/default"); !strings.Contains(out, "hutch: bad: "+why) || !strings.Contains(out, "good_add") {
		t.Errorf("hutch call prints %s", out)
	}
	if out := s.hutch("call", "servers/good"); strings.Contains(out, "hutch: ") {
		t.Errorf("hutch call prints %s", out)
	}
	mended.Store(true) // it is asked again, though nobody asks for the list
	poll(t, "the list", func() bool {
		status := s.read("servers/bad/status")
		return strings.HasPrefix(status, "running\n") && strings.Contains(status, "\ntools 2\n")
	})
	s.hutch("server", "rm", "bad")
	s.hutch("server", "stop", "good")
	poll(t, "the names", func() bool { return !strings.Contains(s.names("groups/default/mcp/tools"), "good_add") })
	if strings.Contains(s.log(), "server.died") {
		t.Error("what somebody ended is told as a death")
	}
}

// TestServerInterrupted interrupts the command that runs a server which says nothing:
// the server is gone.
func TestServerInterrupted(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := s.command("hutch", "server", "-name", "mute", "run", "http://"+l.Addr().String()+"/mcp")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("%v: %s", err, out.Bytes())
	}
	if _, err := s.client().Stat("servers/mute"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	s.refused(`no server "mute"`, "server", "stop", "mute")
}

// TestServerRunLogin has a remote server that wants a login be run by one command.
func TestServerRunLogin(t *testing.T) {
	t.Parallel()
	a, _ := notes(t)
	s := serve(t, false)
	run := s.command("hutch", "server", "-name", "notes", "run", a.MCP)
	var out, said bytes.Buffer
	run.Stdout, run.Stderr = &out, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the server", func() bool {
		_, err := s.client().Stat("servers/notes/login")
		return err == nil
	})
	s.visit(a, "notes")
	if err := run.Wait(); err != nil || out.String() != "notes\n" {
		t.Fatalf("hutch server run: %v: %s%s", err, out.Bytes(), said.Bytes())
	}
	s.greets("notes")
}

// TestServerRunRefused has a remote server that wants a token, and says nobody whose, be run:
// what can be given in place of a login is told, and no login of a server that is gone.
func TestServerRunRefused(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer web.Close()
	s := serve(t, false)
	out, err := s.command("hutch", "server", "-name", "b0", "run", web.URL+"/mcp").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "-bearer") || !strings.Contains(string(out), "-header") || strings.Contains(string(out), "hutch server login b0") {
		t.Errorf("hutch server run: %v, %s", err, out)
	}
}
