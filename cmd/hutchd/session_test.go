//go:build linux

package main_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestSessionFiles has the MCP reference server notify and ask a client that
// is nothing but writes to one file and reads of another.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", "[mcpServers.all]\n"+everything(t))
	s.vm("dev")
	s.tool("dev", "all__get-sum")
	s.mkdir("vm/dev/mcp/sessions/s")
	file := s.open("vm/dev/mcp/sessions/s/out", os.O_RDONLY)
	defer file.Close()
	lines := bufio.NewReader(file)
	// until returns the next line of out that has a text.
	until := func(want string) string {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("out ends before %s: %q %v", want, line, err)
			}
			if strings.Contains(line, want) {
				return line
			}
		}
	}
	in := func(text string) {
		t.Helper()
		s.write("vm/dev/mcp/sessions/s/in", text+"\n")
	}
	in(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"files","version":"1"}}}`)
	until(`"id":1,"result"`)
	in(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	in(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"all__trigger-long-running-operation","arguments":{"duration":0.2,"steps":2},"_meta":{"progressToken":"p"}}}`)
	until(`"method":"notifications/progress"`)
	until(`"id":2,"result"`)
	in(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"all__trigger-sampling-request","arguments":{"prompt":"why"}}}`)
	asked := until(`"method":"sampling/createMessage"`)
	_, id, _ := strings.Cut(asked, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	in(`{"jsonrpc":"2.0","id":` + id + `,"result":{"model":"m","role":"assistant","content":{"type":"text","text":"because"}}}`)
	if answer := until(`"id":3,"result"`); !strings.Contains(answer, "because") {
		t.Errorf("the answer to the server's request went astray: %s", answer)
	}
	s.write("vm/dev/mcp/sessions/s/ctl", "call all__get-sum {\"a\":1,\"b\":2}\neof\n")
	if answer := until(`"id":"ctl-1"`); !strings.Contains(answer, "The sum of 1 and 2 is 3") {
		t.Errorf("%s", answer)
	}
	if line, err := lines.ReadString('\n'); err == nil {
		t.Errorf("after the last answer came %s", line)
	}
	if all := s.read("vm/dev/mcp/sessions/s/out"); !strings.HasPrefix(all, `{"jsonrpc":"2.0","id":1,`) || !strings.Contains(all, `"id":"ctl-1"`) {
		t.Errorf("read again it is %q", all)
	}
}

// TestSDKClient has a client made with the official SDK use a VM from the host,
// and the MCP reference server without hutch.
func TestSDKClient(t *testing.T) {
	t.Parallel()
	nodejs, program := need.Everything(t)
	s := serve(t, false)
	s.write("profiles/default.toml", "[mcpServers.all]\n"+everything(t))
	s.vm("dev")
	s.tool("dev", "all__get-sum")
	run := func(prefix string, server ...string) string {
		cmd := s.user(nodejs, append([]string{"testdata/mcpclient.cjs", os.Getenv("HUTCH_NPM"), prefix}, server...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", server, err, out, stderr(err))
		}
		return string(out)
	}
	direct := run("", nodejs, program, "stdio")
	through := run("all__", filepath.Join(s.bin, "hutch"), "mcp-session", "dev")
	if direct != through || !strings.Contains(direct, `["at once",50]`) || !strings.Contains(direct, "because") {
		t.Errorf("directly\n%s\nthrough hutch\n%s", direct, through)
	}
	if list, err := s.client().ReadDir("vm/dev/mcp/sessions"); err != nil || len(list) != 1 {
		t.Errorf("after it there are %v, %v", list, err)
	}
}

// TestSessionsLimit makes more sessions than a VM can have, and removes the VM.
func TestSessionsLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.mkdir("vm/dev")
	for n := range 64 {
		s.mkdir(fmt.Sprintf("vm/dev/mcp/sessions/%d", n))
	}
	err := s.client().Mkdir("vm/dev/mcp/sessions/more", 0o755)
	if err == nil || !strings.Contains(s.read("vm/dev/err"), `vm dev has 64 MCP sessions, and cannot have more: remove one`) {
		t.Errorf("one more: %v, %s", err, s.read("vm/dev/err"))
	}
	if err := s.client().Remove("vm/dev/mcp/sessions/7"); err != nil {
		t.Fatal(err)
	}
	s.mkdir("vm/dev/mcp/sessions/more")
	if err := s.client().Remove("vm/dev"); err != nil {
		t.Fatal(err)
	}
}
