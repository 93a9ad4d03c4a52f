//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// inside is an MCP client as people write one, which knows nothing but the
// settings that it is given.
const inside = `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { readFileSync } from "fs";
const { mcpServers } = JSON.parse(readFileSync("/opt/hutch/mcp.json"));
const client = new Client({ name: "inside", version: "1" });
await client.connect(new StdioClientTransport(mcpServers.hutch));
const { tools } = await client.listTools();
if (!tools.some((t) => t.name === "local__echo")) throw new Error("no local__echo");
const r = await client.callTool({ name: "local__echo", arguments: { text: "from inside" } });
console.log(r.content[0].text);
await client.close();
`

// TestInside has a client of node's SDK reach MCP by what lies in the guest.
func TestInside(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	nodejs, program := need.Everything(t)
	s := serve(t, false)
	s.vm("dev")
	s.tool("dev", "local__echo")
	modules := program[:strings.Index(program, "/node_modules/")+len("/node_modules")]
	work := filepath.Join(s.state(), "vm", "dev", "work")
	if err := os.CopyFS(filepath.Join(work, "node_modules"), os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	s.write("vm/dev/work/inside.mjs", inside)
	if out, status := s.sh("dev", nodejs+" inside.mjs"); out != "from inside\n" || status != "0" {
		t.Errorf("the client ended %s: %q", status, out)
	}
	for line, want := range map[string]string{
		"echo $HUTCH_VM": "dev\n",
		"sh -lc 'echo $HUTCH_VM; command -v hutch-relay'":                              "dev\n/opt/hutch/bin/hutch-relay\n",
		`eval "$(grep tools/list /opt/hutch/README)" | grep -o local__echo | head -1`:  "local__echo\n",
		`eval "$(grep 'hutch-relay call' /opt/hutch/README)" | grep -o ' inside.mjs$'`: " inside.mjs\n",
	} {
		if out, status := s.sh("dev", line); out != want || status != "0" {
			t.Errorf("%s: ended %s: %q", line, status, out)
		}
	}
	// another's name is another's
	s.write("vm/dev/ctl", "fork -live copy\n")
	if out, _ := s.sh("copy", "echo $HUTCH_VM"); out != "copy\n" {
		t.Errorf("the copy takes itself for %q", out)
	}
}
