//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hutch/fs/need"
)

// mcpclient builds the program that does all that the reference server offers.
func mcpclient(t *testing.T) string { return testProgram(t, "mcpclient") }

// testProgram builds a program of testdata for any guest.
func testProgram(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestMCP has a client inside a sandbox, and one on the host, do all that the
// reference server offers, as a program and over HTTP, and the same client
// without hutch.
func TestMCP(t *testing.T) {
	t.Parallel()
	nodejs, program := need.Everything(t)
	client := mcpclient(t)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		compareMCP(t, client, []string{nodejs, program, "stdio"}, everything(t), inVM)
	})
	t.Run("host", func(t *testing.T) {
		t.Parallel()
		compareMCP(t, client, []string{nodejs, program, "stdio"}, everythingOnHost(t), onHost)
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		url := need.ServeEverything(t)
		compareMCP(t, client, []string{url}, fmt.Sprintf("url = %q\n", url), inVM)
	})
}

// prefixes are how the client is told what hutch makes of the server's names.
var prefixes = []string{"-name", "all__", "-uri", "capsem://all/"}

// inVM returns the client that runs in the VM dev.
func inVM(t *testing.T, s *service, client string) *exec.Cmd {
	program, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	s.write("vm/dev/work/mcpclient", string(program))
	if _, status := s.sh("dev", "chmod +x /workspace/mcpclient"); status != "0" {
		t.Fatal(status)
	}
	return s.command("hutch", slices.Concat([]string{"exec", "dev", "/workspace/mcpclient"}, prefixes, []string{"hutch-relay"})...)
}

// onHost returns the client that uses the VM dev from the host.
func onHost(_ *testing.T, s *service, client string) *exec.Cmd {
	return s.user(client, append(prefixes, filepath.Join(s.bin, "hutch"), "mcp-session", "dev")...)
}

// compareMCP runs the client with direct as its server, and through hutch with
// a VM whose profile has the server.
func compareMCP(t *testing.T, client string, direct []string, server string, through func(*testing.T, *service, string) *exec.Cmd) {
	s := serve(t, false)
	s.write("profiles/default.toml", "[mcpServers.all]\n"+server)
	s.vm("dev")
	here := transcript(t, s.user(client, direct...), "", "")
	there := transcript(t, through(t, s, client), "all__", "capsem://all/")
	for what, lines := range here {
		if !reflect.DeepEqual(lines, there[what]) {
			a, _ := json.Marshal(lines)
			b, _ := json.Marshal(there[what])
			t.Errorf("%s: directly\n%.1500s\nthrough hutch\n%.1500s", what, a, b)
		}
	}
	for what := range there {
		if here[what] == nil {
			t.Errorf("%s happens through hutch only", what)
		}
	}
	compareCalls(t, s, there)
}

// transcript runs the client, and returns what came of each deed, without
// the prefixes of names.
func transcript(t *testing.T, cmd *exec.Cmd, name, uri string) map[string][]any {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v %s\n%s", cmd.Args, err, stderr(err), out)
	}
	text := need.Clock.ReplaceAllString(string(out), "then")
	if name != "" {
		text = strings.ReplaceAll(strings.ReplaceAll(text, name, ""), uri, "")
	}
	deeds := map[string][]any{}
	for line := range strings.Lines(text) {
		what, result, _ := strings.Cut(line, "\t")
		var v any
		if err := json.Unmarshal([]byte(result), &v); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		deeds[what] = append(deeds[what], v)
	}
	if len(deeds) < 50 {
		t.Errorf("%d deeds are not all:\n%s", len(deeds), text)
	}
	return deeds
}

// rows returns the lines of a table's text that are rows: not of what has only begun.
func rows(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, `{"begun":`) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// compareCalls checks that each call is in mcp/calls, once.
func compareCalls(t *testing.T, s *service, deeds map[string][]any) {
	t.Helper()
	want := map[string]int{
		"get-sum": 1, "trigger-long-running-operation": 2, // the calls with bad arguments, with progress, and cancelled
		"toggle-subscriber-updates": 0, "toggle-simulated-logging": 0,
	}
	reads, gets := 0, 0
	for what, lines := range deeds {
		if tool, ok := strings.CutPrefix(what, "call "); ok && !strings.Contains(tool, " ") {
			want[tool] += len(lines)
		}
		if strings.HasPrefix(what, "read ") {
			reads++
		}
		if strings.HasPrefix(what, "get ") {
			gets++
		}
	}
	s.call("dev", "file_list", `{}`)
	got, methods, ids := map[string]int{}, map[string]int{}, map[float64]bool{}
	for line := range strings.Lines(rows(s.calls("dev", `"tool_name":"file_list"`))) {
		var r struct {
			ID                  float64
			Method, Tool_name   string
			Server_name         string
			Decision, Timestamp string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if ids[r.ID] {
			t.Errorf("id %v is there twice", r.ID)
		}
		ids[r.ID] = true
		methods[r.Method]++
		if tool, ok := strings.CutPrefix(r.Tool_name, "all__"); ok && r.Method == "tools/call" {
			got[tool]++
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("mcp/calls has %v, want %v", got, want)
	}
	if methods["resources/read"] != reads || methods["prompts/get"] != gets {
		t.Errorf("mcp/calls has %v, want %d reads, %d gets", methods, reads, gets)
	}
}
