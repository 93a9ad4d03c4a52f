//go:build linux

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// groupOf makes a group of servers that are there.
func (s *service) groupOf(name, config string, servers ...string) {
	s.t.Helper()
	s.mkdir("groups/" + name)
	s.write("groups/"+name+"/config", config)
	s.write("groups/"+name+"/members", strings.Join(servers, "\n")+"\n")
	if text := s.read("groups/" + name + "/err"); text != "" {
		s.t.Fatalf("the group's err is %s", text)
	}
}

// has fails the test unless a file has each of the texts.
func (s *service) has(name string, texts ...string) {
	s.t.Helper()
	text := s.read(name)
	for _, want := range texts {
		if !strings.Contains(text, want) {
			s.t.Errorf("%s lacks %s:\n%s", name, want, text)
		}
	}
}

// TestGroup serves two servers that have the same tools as one, and a tool that is made
// of both; one of them is killed, and stopped, and the other answers.
func TestGroup(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.everythingServer("left")
	s.everythingServer("right")
	s.groupOf("dev", `
aggregation:
  conflictResolution: priority
  conflictResolutionConfig: {priorityOrder: [right, left]}
  tools:
  - {workload: left, overrides: {get-sum: {name: left_sum}}}
  - {workload: right, filter: [echo, get-sum]}
compositeTools:
- name: both
  description: Adds at one, and has the other say it.
  parameters: {type: object, properties: {n: {type: integer}}}
  steps:
  - {id: add, tool: left.get-sum, arguments: {a: "{{.params.n}}", b: 1}}
  - {id: say, tool: right.echo, dependsOn: [add], arguments: {message: "{{.steps.add.output.text}}"}}
- name: none
  description: Calls what is not there.
  steps: [{id: x, tool: left.nothing}, {id: y, tool: nobody.echo}]
- name: named
  description: Calls tools by the names that clients have.
  steps: [{id: x, tool: left_sum, arguments: {a: 2, b: 3}}]
backends: [{name: left, url: "http://127.0.0.1:9/mcp"}]
`, "left", "right")
	dir := "groups/dev/"
	sum := func(tool, want string) {
		t.Helper()
		if text := s.use(dir+"tools/"+tool, `{"a":2,"b":3}`); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", tool, text, want)
		}
	}
	sum("get-sum", "5")
	sum("left_sum", "5")
	sum("named", "5")
	s.has(dir+"status", "serving\n", "member left running circuit closed\n", "member right running circuit closed\n", "composite both\n",
		`"echo" of left: left out: right comes first with the name "echo"`,
		"backends.0: left is a member, which is what counts: the url is not used",
		`line 17: compositeTools.1.steps.0.tool: left has no tool "nothing"`,
		`line 17: compositeTools.1.steps.1.tool: the group has no tool "nobody.echo": want SERVER.TOOL, or a name that clients have`)
	if text := s.use(dir+"tools/both", `{"n":4}`); !strings.Contains(text, "4 and 1 is 5") {
		t.Errorf("both: %s", text)
	}
	query := s.open(dir+"db/query", os.O_RDWR)
	defer query.Close()
	fmt.Fprintln(query, "SELECT server_name, tool_name, decision FROM mcp_calls WHERE trace_id = (SELECT trace_id FROM mcp_calls WHERE tool_name = 'both') ORDER BY server_name;")
	rows, err := io.ReadAll(query)
	want := `{"server_name":"composite","tool_name":"both","decision":"allowed"}
{"server_name":"left","tool_name":"left_sum","decision":"allowed"}
{"server_name":"right","tool_name":"echo","decision":"allowed"}
`
	if err != nil || string(rows) != want {
		t.Errorf("the records are %v\n%s", err, rows)
	}
	s.has("servers/left/log/audit", `"principal":"group dev"`) // who asked it

	s.write("vm/server-right/ctl", "kill\n")
	sum("left_sum", "5")
	sum("get-sum", "5") // the call has it started again
	s.write("servers/right/ctl", "stop\n")
	poll(t, "the names of the one that is left", func() bool { return !strings.Contains(s.names(dir+"tools"), "get-sum") })
	sum("left_sum", "5")
	s.has(dir+"status", "member right stopped circuit closed\n")
	if text := s.use(dir+"tools/both", `{"n":4}`); !strings.Contains(text, "server right does not run (stopped)") {
		t.Errorf("both: %s", text)
	}
	if err := s.client().Remove("groups/dev"); err != nil {
		t.Fatal(err)
	}
	s.has("groups/default/members", "left\nright\n")
	s.sumBy("left")
}

// A moody server is a shifter that hangs, if it is told to, in calls, and keeps the key
// that it was sent last.
type moody struct {
	*shifter
	hangs     atomic.Bool
	calls     atomic.Int32 // that came
	cancelled atomic.Int32 // that it was told are
	key       atomic.Pointer[string]
}

func newMoody(t *testing.T) *moody {
	tools := `{"name":"add","description":"adds","inputSchema":{"type":"object"}}`
	m := &moody{shifter: &shifter{}}
	m.tools.Store(&tools)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Key")
		m.key.Store(&key)
		text, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
		if bytes.Contains(text, []byte(`"notifications/cancelled"`)) {
			m.cancelled.Add(1)
		}
		if bytes.Contains(text, []byte(`"tools/call"`)) {
			m.calls.Add(1)
			if m.hangs.Load() {
				<-r.Context().Done()
				return
			}
		}
		m.shifter.ServeHTTP(w, r)
	}))
	t.Cleanup(m.Close)
	return m
}

// TestGroupRemote has a group send a header, refuse what its policy does, and leave a
// server alone that hangs, until it answers again.
func TestGroupRemote(t *testing.T) {
	t.Parallel()
	one, two := newMoody(t), newMoody(t)
	s := serve(t, false)
	s.write("secrets/key", "s3cret-of-one")
	for name, m := range map[string]*moody{"one": one, "two": two} {
		s.mkdir("servers/" + name)
		s.write("servers/"+name+"/ctl", "run "+m.URL+"\n")
	}
	s.groupOf("dev", `
outgoingAuth:
  backends: {one: {type: header_injection, headerInjection: {headerName: X-Key, headerValue: "secret:key"}}}
operational:
  timeouts: {perWorkload: {one: 500ms}}
  failureHandling:
    circuitBreaker: {enabled: true, failureThreshold: 2, timeout: 1s}
compositeTools:
- {name: both, description: d, steps: [{id: x, tool: one.add}, {id: y, tool: two.add}]}
`, "one", "two")
	call := func(tool string) string {
		f := s.open("groups/dev/tools/"+tool+"/call", os.O_RDWR)
		defer f.Close()
		if _, err := f.WriteAt([]byte("{}\n"), 0); err != nil {
			return s.why()
		}
		text, err := io.ReadAll(f)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	for _, tool := range []string{"one_add", "two_add", "both"} {
		if text := call(tool); !strings.Contains(text, `"content":`) || strings.Contains(text, "isError") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	if k1, k2 := *one.key.Load(), *two.key.Load(); k1 != "s3cret-of-one" || k2 != "" {
		t.Errorf("the keys are %q and %q", k1, k2)
	}
	for _, name := range []string{"groups/dev/log/audit", "servers/one/log/audit", "servers/one/log/server", "groups/dev/log/agg"} {
		if strings.Contains(s.read(name), "s3cret-of-one") {
			t.Errorf("%s has the secret", name)
		}
	}

	for range 8 {
		s.write("servers/two/ctl", "restart\n")
		if text := s.names("groups/dev/tools"); !strings.Contains(text, "two_add") {
			t.Fatalf("a server was started again, and the group has only %s", text)
		}
	}

	one.hangs.Store(true)
	for range 2 {
		if text := call("one_add"); !strings.Contains(text, "timed out") {
			t.Errorf("a call that hangs: %s", text)
		}
	}
	s.has("groups/dev/status", "member one running circuit open\n", "member two running circuit closed\n")
	if text := call("both"); !strings.Contains(text, "server one failed 2 times in a row and is not called") {
		t.Errorf("both: %s", text)
	}
	call("two_add")
	one.hangs.Store(false)
	poll(t, "the circuit to close", func() bool { return !strings.Contains(call("one_add"), "is not called") })
	s.has("groups/dev/status", "member one running circuit closed\n")

	two.Close() // its own endpoint says that it cannot be reached
	for range 2 {
		call("two_add")
	}
	s.has("groups/dev/status", "circuit open\n")
	s.signal(syscall.SIGKILL)
	s.start()
	poll(t, "the server to run", func() bool { return strings.HasPrefix(s.read("servers/one/status"), "running\n") })
	if text := call("one_add"); !strings.Contains(text, `"content":`) || *one.key.Load() != "s3cret-of-one" {
		t.Errorf("after hutchd was killed: %s", text)
	}

	s.write("profiles/default.toml", "[security]\ndeny = [\"two__add\"]\n")
	s.write("groups/dev/mcp/ctl", "reload\n")
	if text := call("both"); !strings.Contains(text, `tool \"two.add\": MCP request blocked by policy`) {
		t.Errorf("both: %s", text)
	}
	s.write("groups/dev/config", "operational: {failureHandling: {partialFailureMode: fail}}\n")
	s.write("servers/two/ctl", "stop\n")
	poll(t, "one to be there, and two not", func() bool {
		text := s.read("groups/dev/mcp/servers")
		_, two, _ := strings.Cut(text, "server two does not run ")
		return strings.Contains(text, "one connected ") && // two was stopped as it was started once more, or between two tries
			(strings.HasPrefix(two, "(stopped)") || strings.HasPrefix(two, "(error)"))
	})
	s.mkdir("groups/dev/mcp/sessions/s")
	s.write("groups/dev/mcp/sessions/s/in", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
	s.write("groups/dev/mcp/sessions/s/in", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	s.write("groups/dev/mcp/sessions/s/ctl", "eof\n")
	s.has("groups/dev/mcp/sessions/s/out", "not available: two; lists are refused")
	s.write("groups/dev/config", "outgoingAuth: {default: {type: token_exchange, tokenExchange: {tokenUrl: 'https://idp.example.com/token'}}}\n")
	poll(t, "a server that wants tokens to say so", func() bool {
		return strings.Contains(s.read("groups/dev/mcp/servers"), "token_exchange: who calls brings no token")
	})
}

// TestGroupGone has who called a composite tool go away while a step is under way: its
// server is told that it is cancelled, and no other step begins.
func TestGroupGone(t *testing.T) {
	t.Parallel()
	one, two := newMoody(t), newMoody(t)
	one.hangs.Store(true)
	s := serve(t, false)
	for name, m := range map[string]*moody{"one": one, "two": two} {
		s.mkdir("servers/" + name)
		s.write("servers/"+name+"/ctl", "run "+m.URL+"\n")
	}
	s.groupOf("dev", `
compositeTools:
- name: both
  description: d
  steps:
  - {id: x, tool: one.add, onError: {action: continue}}
  - {id: y, tool: two.add, dependsOn: [x]}
`, "one", "two")
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{%s}}`
	session := func(name string) string {
		s.mkdir("groups/dev/mcp/sessions/" + name)
		return "groups/dev/mcp/sessions/" + name
	}
	older := func(name string) string {
		dir := session(name)
		s.write(dir+"/in", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
		s.write(dir+"/in", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"both"}}`+"\n")
		return dir
	}
	newer := func(name, capabilities string) string {
		dir := session(name)
		s.write(dir+"/in", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"both",`+fmt.Sprintf(meta, capabilities)+"}}\n")
		return dir
	}
	cancel := func(dir string) {
		s.write(dir+"/in", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n")
	}
	remove := func(dir string) {
		if err := s.client().Remove(dir); err != nil {
			t.Error(err)
		}
	}
	for i, c := range []struct {
		what  string
		begin func() (end func())
	}{
		{"a call's file is closed", func() func() {
			f := s.open("groups/dev/tools/both/call", os.O_RDWR)
			ended := make(chan struct{})
			go func() { f.WriteAt([]byte("{}\n"), 0); close(ended) }()
			return func() { f.Close(); <-ended }
		}},
		{"a session is removed", func() func() { dir := older("a"); return func() { remove(dir) } }},
		{"a call is cancelled", func() func() { dir := older("b"); return func() { cancel(dir) } }},
		{"a newer session is removed", func() func() { dir := newer("c", ""); return func() { remove(dir) } }},
		{"a newer call is cancelled", func() func() { dir := newer("d", ""); return func() { cancel(dir) } }},
		{"a newer session that can be asked is removed", func() func() { dir := newer("e", `"elicitation":{}`); return func() { remove(dir) } }},
		{"a newer call that can be asked is cancelled", func() func() { dir := newer("f", `"elicitation":{}`); return func() { cancel(dir) } }},
	} {
		end := c.begin()
		poll(t, "the step: "+c.what, func() bool { return one.calls.Load() == int32(i+1) })
		end()
		poll(t, "the server to be told: "+c.what, func() bool { return one.cancelled.Load() == int32(i+1) })
	}
	if n := two.calls.Load(); n != 0 {
		t.Errorf("%d steps began after who called had gone", n)
	}
}

// TestGroupExample tries the config in the manual page that has a composite tool.
func TestGroupExample(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	page, err := os.ReadFile("../../mcpd/vmcp/vmcp.5")
	if err != nil {
		t.Fatal(err)
	}
	var config string
	for _, part := range strings.Split(string(page), "\n.EX\n")[1:] {
		if text, _, _ := strings.Cut(part, ".EE"); strings.Contains(text, "compositeTools:") {
			config = text
		}
	}
	need.Everything(t)
	s := serve(t, false)
	s.groupOf("notes", config)
	for _, name := range []string{"everything", "memory"} {
		if out, err := s.command("hutch", "server", "run", "-group", "notes", name).CombinedOutput(); err != nil {
			t.Fatalf("hutch server run: %v: %s", err, out)
		}
	}
	out, err := s.command("hutch", "call", "-json", "groups/notes", "remember_sum", `{"a": 2, "b": 3}`).CombinedOutput()
	if want := `"structuredContent":{"new":1,"said":"The sum of 2 and 3 is 5."}`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("hutch call: %v: %s, want %s", err, out, want)
	}
	if text := s.use("groups/notes/tools/memory_read_graph", "{}"); !strings.Contains(text, "sum of 2 and 3") {
		t.Errorf("the graph is %s", text)
	}
	if text := s.read("groups/notes/status"); strings.Contains(text, "\nnote ") {
		t.Errorf("the status is %s", text)
	}
}
