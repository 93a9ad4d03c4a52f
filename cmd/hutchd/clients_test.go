//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// outside is an MCP client of the host, which starts the servers that its
// settings name and knows nothing else of them.
const outside = `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { readFileSync } from "fs";
const { mcpServers } = JSON.parse(readFileSync(process.argv[2]));
const call = async (server, name, args) => {
	const client = new Client({ name: "outside", version: "1" });
	await client.connect(new StdioClientTransport(mcpServers[server]));
	const r = await client.callTool({ name, arguments: args });
	console.log(server, r.content[0].text);
	await client.close();
};
await call("dev", "local__echo", { text: "from outside" });
await call("hutch", "hutch_list", {});
`

// TestClients has a client of node's SDK start hutch's servers from the file
// that hutch wrote for it, and the file be what it was after that.
func TestClients(t *testing.T) {
	t.Parallel()
	nodejs, program := need.Everything(t)
	s := newService(t, false)
	home := s.atHome()
	settings := filepath.Join(home, ".claude.json")
	before := []byte("{\n  \"numStartups\": 3\n}\n")
	script := filepath.Join(s.dir, "outside.mjs")
	modules := program[:strings.Index(program, "/node_modules/")+len("/node_modules")]
	if err := errors.Join(os.WriteFile(settings, before, 0o600), os.WriteFile(script, []byte(outside), 0o600),
		os.Symlink(modules, filepath.Join(s.dir, "node_modules"))); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.vm("dev")
	s.tool("dev", "local__echo")
	hutch := func(args ...string) string {
		t.Helper()
		out, err := s.command("hutch", append([]string{"client"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("hutch client %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	hutch("add", "claude-code", "vm/dev")
	hutch("add", "claude-code", "mcp")
	if out := hutch("ls"); !strings.Contains(out, "claude-code  installed  vm/dev mcp  "+settings) || strings.Contains(out, "zed") {
		t.Errorf("hutch client ls prints\n%s", out)
	}
	if out := hutch("-json", "-a", "ls"); !strings.Contains(out, `"servers":{"dev":"vm/dev","hutch":"mcp"}`) || !strings.Contains(out, `{"client":"zed","state":"absent",`) {
		t.Errorf("hutch client -json -a ls prints\n%s", out)
	}
	var complaint bytes.Buffer
	node := s.user(nodejs, script, settings)
	node.Env = []string{"PATH=" + os.Getenv("PATH")} // nor of where the service is
	node.Stderr = &complaint
	out, err := node.Output()
	if err != nil || !strings.HasPrefix(string(out), "dev from outside\nhutch ") || !strings.Contains(string(out), `"dev"`) {
		t.Errorf("%v: the client printed %s%s", err, out, complaint.Bytes())
	}
	if calls := s.read("vm/dev/log/mcp"); !strings.Contains(calls, "from outside") {
		t.Errorf("the call is not recorded: %s", calls)
	}
	hutch("rm", "claude-code", "mcp")
	hutch("add", "claude-code", "mcp")
	if text, err := os.ReadFile(settings); err != nil || os.WriteFile(settings, bytes.Replace(text, []byte("3"), []byte("4"), 1), 0o600) != nil { // as it does by itself
		t.Fatal(err)
	}
	if out := hutch("restore", "claude-code"); !strings.Contains(out, "hutch's servers were taken out of what was there") {
		t.Errorf("hutch client restore prints %s", out)
	}
	if text, err := os.ReadFile(settings); err != nil || !bytes.Contains(text, []byte(`"numStartups": 4`)) || bytes.Contains(text, []byte("vm/dev")) {
		t.Errorf("%v: the file is %s", err, text)
	}
	hutch("-f", "restore", "claude-code")
	if is, err := os.ReadFile(settings); err != nil || !bytes.Equal(is, before) {
		t.Errorf("%v: the file is %s", err, is)
	}
	if out, err := s.command("hutch", "client", "add", "nobody", "mcp").CombinedOutput(); err == nil || !strings.Contains(string(out), `no AI client "nobody"; hutch client ls -a`) {
		t.Errorf("%v: %s", err, out)
	}
}
