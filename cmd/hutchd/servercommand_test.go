//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	t.Parallel()
	_, program := need.Everything(t)
	root, _, _ := strings.Cut(program, "/node_modules/")
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
	if out := s.hutch("server", "-l", "team=docs", "-e", "MARK=told", "-v", root+"/node_modules:/node_modules:ro", "run", "everything", "--", "stdio"); !strings.HasSuffix(out, "everything\n") {
		t.Errorf("hutch server run prints %s", out)
	}
	s.sumBy("everything")
	if out := s.hutch("server", "-format", "json", "-l", "team=docs", "ls"); !strings.Contains(out, `"name":"everything","package":"npx://@modelcontextprotocol/server-everything@`) ||
		!strings.Contains(out, `"status":"running"`) || !strings.Contains(out, `"get-sum"`) || !strings.Contains(out, `"group":"default"`) {
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
	if text := s.read("servers/everything/log/audit"); strings.Count(text, `"tool_name":"get-sum"`) != 3 {
		t.Errorf("the calls are %s", text)
	}
	saved := filepath.Join(s.dir, "saved.json")
	s.hutch("server", "export", "everything", saved)
	s.hutch("server", "rm", "everything")
	if out := s.hutch("server", "import", saved); out != "everything\n" {
		t.Errorf("hutch server import prints %s", out)
	}
	s.hutch("server", "start", "everything")
	s.sumBy("everything")
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
	s.refused("no name can be made of", "server", "run", "npx://builtin")
	s.refused("-e does not go with ls", "server", "-e", "A=b", "ls")
	s.refused(`no server "nobody"`, "server", "stop", "nobody")
	s.refused(`no server "nobody"`, "mcp-session", "servers/nobody")
	if out := s.hutch("server", "-name", "kept", "import", bad(`{"image":"npx://x","new_field":7}`)); !strings.Contains(out, "hutch: not used: new_field: ") {
		s.t.Errorf("of a field that is not known it says %s", out)
	}
	s.refused(`file already exists: server "kept"`, "server", "-name", "kept", "run", "npx://x")
	s.hutch("server", "rm", "kept")
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
	cmd := s.user(program.Command, program.Args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // nor of where the service is
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cursor","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get-sum","arguments":{"a":2,"b":3}}}
`)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "The sum of 2 and 3 is 5") {
		s.t.Errorf("%s %q: %v: %s", program.Command, program.Args, err, out)
	}
}
