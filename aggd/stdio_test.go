package aggd

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

func TestStdioBytes(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	if st := h.status("s"); st.State != wire.Stopped || !st.IsStdio {
		t.Errorf("before its first use: %+v", st)
	}
	if names := h.tools(); !slices.Equal(names, []string{"s__odd", "s__echo", "s__a__b"}) {
		t.Errorf("tools %v", names)
	}
	wants(t, h.ask("list_tools", ""), `"raw":`+odd+`}`, `"input_schema":{"type":"object","$defs":{"a":{"const":12345678901234567890}},"unevaluatedProperties":false}`)
	wants(t, h.ask("list_templates", ""), `"namespaced_uri_template":"capsem://s/test://{x}"`)
	wants(t, h.ask("get_prompt", `{"name":"s__p__q"}`), `"result":{"echo":{"name":"p__q"}}`)
	wants(t, h.ask("read_resource", `{"uri":"capsem://s/test://a/b?c"}`), `"result":{"echo":{"uri":"test://a/b?c"}}`)
	params := `{  "name" : "x","n":12345678901234567890, "é<":1e400 }`
	wants(t, h.rpc("", "s", "tools/call", params), `"result":{"echo":`+params+`}}`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"fail"}`), `"rpc_error":{"code":-32602,"message":"bad <args>","data":[12345678901234567890]}`)
	wants(t, h.rpc("", "s", "initialize", "{}"), `"error":"the aggregator initializes`)
	wants(t, h.rpc("c123", "s", "tools/list", "{}"), `"error":"unknown client: c123"`)
	st := h.status("s")
	if st.State != wire.Connected || st.ToolCount != 3 || st.TemplateCount != 1 || st.ProtocolVersion != "2025-06-18" || st.Instructions != "be kind" {
		t.Errorf("in use: %+v", st)
	}
}

// TestBadServers has servers that do what they should not, beside a good one that
// goes on working, and the connection goes on too where it can.
func TestBadServers(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"), stdioServer(t, "good", "plain"))
	for _, c := range []struct{ tool, want string }{
		{"rubbish", `"result":{"ok":1}`},
		{"noise", `"result":{"ok":1}`},
		{"null", `"rpc_error":{"code":-32700,"message":"what?"}`},
		{"big", `over the limit of 16777216"`},
		{"flood", `"result":{"ok":1}`},
		{"askping", `"result":{}`},
		{"die", `dying words`},
	} {
		t.Run(c.tool, func(t *testing.T) {
			wants(t, h.rpc("", "s", "tools/call", `{"name":"`+c.tool+`"}`), c.want)
			wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
			wants(t, h.rpc("", "good", "tools/call", `{"name":"x"}`), `"result":{"echo"`)
		})
	}
	wants(t, h.log.String(), "s: sent what is passed over, 1 lines until now", "s: dying words")
	select {
	case line := <-h.unread:
		if !strings.Contains(line, `"data":0`) { // of flood
			t.Errorf("noise was passed on: %s", line)
		}
	default:
	}
}

// TestBrokenAnswers has answers that do not parse: their calls fail at once, and
// the connection goes on.
func TestBrokenAnswers(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	pid := h.pid("s")
	for _, c := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":ID,"result":{"a":}}`, "invalid JSON: unexpected '}' at byte "},
		{`{"jsonrpc":"2.0","result":{"a":01},"id":ID}`, "invalid JSON: unexpected '1' at byte "},
		{`{"jsonrpc":"2.0","id":ID,"result":{"text":"cut`, "invalid JSON: ends too early"},
		{`{"jsonrpc":"2.0","error":{"code":1,"message":"cut`, "invalid JSON: ends too early"},
		{`{"jsonrpc":"2.0","id":ID,"result":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "nested deeper than 512"},
		{`{"jsonrpc":"2.0","id":ID}`, "neither with a result nor with an error"},
		{`{"jsonrpc":"2.0","id":ID,"error":"text"}`, "neither with a result nor with an error"},
	} {
		line := h.rpc("", "s", "tools/call", fmt.Sprintf(`{"name":"broken","line":%s}`, rawjson.Quote(c.line)))
		if message := rawjson.GetString([]byte(line), "error"); !strings.Contains(message, c.want) {
			t.Errorf("%.80s: %s, want %s", c.line, line, c.want)
		}
	}
	if h.pid("s") != pid {
		t.Error("the server was started again")
	}
}

// TestEndless has a server send a line that never ends: it is ended, and so is
// nothing else.
func TestEndless(t *testing.T) {
	h := start(t, Config{Limits: wire.Limits{MaxResult: 1 << 20}}, stdioServer(t, "s", "plain"), stdioServer(t, "good", "plain"))
	pid := h.pid("s")
	wants(t, h.rpc("", "s", "tools/call", `{"name":"endless"}`), `"error":"the server sent a line without an end, over 6`)
	wants(t, h.unasked(), `"method":"hutch/lost","params":{"reason":"the server sent a line without an end`)
	wants(t, h.rpc("", "good", "tools/call", `{"name":"x"}`), `"echo"`)
	if h.pid("s") == pid {
		t.Error("the server goes on")
	}
}

// TestOfCall finds a notification that no rule of the protocol ties to a call at
// the only call under way, and at none where there are several.
func TestOfCall(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	answer, id := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"unusual"}`))
	wants(t, h.unasked(), `"method":"notifications/unusual","params":{"a":1},"call":`+id)
	h.await(answer)
	h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	h.unasked()
	h.rpc("", "s", "tools/call", `{"name":"unusual"}`)
	wants(t, h.unasked(), `"method":"notifications/unusual","params":{"a":1},"call":0`)
}

func TestBadStarts(t *testing.T) {
	t.Parallel()
	silent := stdioServer(t, "silent", "silent")
	silent.ConnectTimeout = wire.Duration(200 * time.Millisecond)
	deaf := stdioServer(t, "deaf", "deaf")
	deaf.ConnectTimeout = wire.Duration(200 * time.Millisecond)
	absent := wire.Server{Name: "absent", Program: wire.Program{Command: "no-such-program"}}
	h := start(t, Config{ListWait: 50 * time.Millisecond}, silent, deaf, absent,
		stdioServer(t, "crash", "crash"), stdioServer(t, "old", "old"), stdioServer(t, "cursor", "cursor"))
	for name, want := range map[string]string{
		"silent": "no answer within 200ms",
		"deaf":   "no answer within 200ms",
		"absent": `no program \"no-such-program\" in the PATH`,
		"crash":  "the server died (exit status 3): cannot find module x",
		"old":    `the server speaks protocol version \"1999-01-01\"`,
	} {
		wants(t, h.rpc("", name, "tools/call", `{"name":"x"}`), `"error":"server `+name+" is not connected", want)
	}
	wants(t, h.rpc("", "cursor", "tools/call", `{"name":"x"}`), `"echo"`)
	if st := h.status("cursor"); !strings.Contains(st.Error, "repeats the cursor") || st.State != wire.Degraded {
		t.Errorf("%+v", st)
	}
	if names := h.tools(); len(names) != 0 {
		t.Errorf("tools %v", names)
	}
}

func TestCallTimeout(t *testing.T) {
	s := stdioServer(t, "s", "plain")
	s.CallTimeout = wire.Duration(100 * time.Millisecond)
	h := start(t, Config{}, s)
	h.tools() // or the time is that of its start
	wants(t, h.rpc("", "s", "tools/call", `{"name":"hang"}`), `"error":"timed out: server s did not answer within 100ms"`)
	h.awaitLog(`cancelled {"requestId":`)
}

func TestCancel(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	answer, id := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"hang"}`))
	line := h.unasked()
	wants(t, line, `"data":"hanging"`, `"call":`+id)
	wants(t, h.ask("cancel", `{"id":`+id+`,"reason":"enough"}`), `"ok":true`)
	wants(t, h.await(answer), `"error":"enough"`)
	h.awaitLog(`"reason":"enough"}`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
}

// TestProgress has two clients use the same token at once.
func TestProgress(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	params := rpcParams("", "s", "tools/call", `{"name":"progress","_meta":{"progressToken":"same","x":12345678901234567890}}`)
	one, id1 := h.post("rpc", params)
	two, id2 := h.post("rpc", params)
	wants(t, h.await(one), `"result":{"token":`)
	wants(t, h.await(two), `"result":{"token":`)
	count := map[string]int{}
	for range 4 {
		line := h.unasked()
		wants(t, line, `"progressToken":"same","new":12345678901234567890`)
		count[string(rawjson.Get([]byte(line), "notification", "call"))]++
	}
	if count[id1] != 2 || count[id2] != 2 {
		t.Errorf("progress by call: %v", count)
	}
}

func TestServerRequests(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	wants(t, h.rpc("", "s", "tools/call", `{"name":"caps"}`), `{"caps":{}}`)

	client := h.client(`{"sampling":{},"x":{"big":12345678901234567890}}`)
	if again := h.client(` { "x":{"big":12345678901234567890},"sampling":{}}`); again != client || client == "" {
		t.Errorf("keys %q, %q", client, again)
	}
	if none := h.client(`{}`); none != "" {
		t.Errorf("the empty set has the key %q", none)
	}
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"caps"}`), `{"caps":{"sampling":{},"x":{"big":12345678901234567890}}}`)

	answer, id := h.post("rpc", rpcParams(client, "s", "tools/call", `{"name":"ask"}`))
	line := h.unasked()
	wants(t, line, `"request":{"rid":`, `"client":"`+client+`"`, `"method":"sampling/createMessage"`, `"params":{"big":12345678901234567890}`, `"call":`+id)
	rid := string(rawjson.Get([]byte(line), "request", "rid"))
	wants(t, h.ask("reply", `{"rid":`+rid+`,"result":{"deep":12345678901234567890}}`), `"ok":true`)
	wants(t, h.unasked(), `"data":{"jsonrpc":"2.0","id":"q-1","result":{"deep":12345678901234567890}}`)
	wants(t, h.ask("reply", `{"rid":`+rid+`,"result":{}}`), "nobody waits")
	wants(t, h.ask("reply", `{"rid":"x"}`), "reply needs")

	// one that the server itself gives up
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"askstop"}`), `"result":{}`)
	rid = string(rawjson.Get([]byte(h.unasked()), "request", "rid"))
	wants(t, h.unasked(), `"method":"notifications/cancelled","params":{"requestId":`+rid+`,"reason":"late"}`)

	// one that dies with its server
	h.post("rpc", rpcParams(client, "s", "tools/call", `{"name":"ask"}`))
	rid = string(rawjson.Get([]byte(h.unasked()), "request", "rid"))
	h.post("rpc", rpcParams(client, "s", "tools/call", `{"name":"die"}`))
	wants(t, h.unasked(), `"method":"notifications/cancelled","params":{"requestId":`+rid)
	wants(t, h.unasked(), `"server":"s","method":"hutch/lost","params":{"reason":"the server died (exit status 7)`)

	// to a client without capabilities nothing comes
	h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"ask"}`))
	wants(t, h.unasked(), `"call":`, `"data":{"jsonrpc":"2.0","id":"q-1","error":{"code":-32601,`)
	_ = answer
}

// TestBatches has a server send batches: what answers one is a batch.
func TestBatches(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	client := h.client(`{"sampling":{},"roots":{}}`)
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"askbatch"}`), `"result":{"batch":true}`)
	a, b := h.unasked(), h.unasked()
	wants(t, a, `"method":"sampling/createMessage"`)
	wants(t, b, `"method":"roots/list"`)
	wants(t, h.unasked(), `"data":"in a batch"`)
	h.ask("reply", `{"rid":`+string(rawjson.Get([]byte(b), "request", "rid"))+`,"result":{"roots":[]}}`)
	h.ask("reply", `{"rid":`+string(rawjson.Get([]byte(a), "request", "rid"))+`,"error":{"code":-1,"message":"no"}}`)
	wants(t, h.unasked(), `"data":[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{"roots":[]}},{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"no"}}]`)

	// one that is too long is noise; of another the server gives up a part
	wants(t, h.rpc(client, "s", "tools/call", `{"name":"askbatches"}`), `"result":{}`)
	wants(t, h.unasked(), `"method":"roots/list"`)
	wants(t, h.unasked(), `"method":"notifications/cancelled"`)
	wants(t, h.unasked(), `"data":[{"jsonrpc":"2.0","id":6,"result":{}}]`)
	wants(t, h.log.String(), "a batch of 1025 messages: at most 1024")
}

func TestNotify(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	wants(t, h.ask("notify", rpcParams("", "s", "notifications/roots/list_changed", "")), `"ok":true`)
	wants(t, h.unasked(), `"data":"roots changed"`, `"call":0`)
	wants(t, h.ask("notify", rpcParams("", "nobody", "notifications/x", "")), "server not found")
}

func TestListChanged(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	if n := len(h.tools()); n != 3 {
		t.Errorf("%d tools", n)
	}
	wants(t, h.rpc("", "s", "tools/call", `{"name":"change"}`), `"result"`)
	wants(t, h.unasked(), `"method":"notifications/tools/list_changed"`)
	if names := h.tools(); !slices.Contains(names, "s__extra") {
		t.Errorf("tools %v", names)
	}
}

// TestSticky finds what was asked of a server asked again of its successor.
func TestSticky(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	h.rpc("", "s", "logging/setLevel", `{"level":"debug"}`)
	h.rpc("", "s", "resources/subscribe", `{"uri":"test://a"}`)
	h.rpc("", "s", "resources/subscribe", `{"uri":"test://b"}`)
	h.rpc("", "s", "resources/unsubscribe", `{"uri":"test://b"}`)
	h.rpc("", "s", "tools/call", `{"name":"die"}`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
	for strings.Count(h.log.String(), "asked for logging/setLevel") < 2 || strings.Count(h.log.String(), "asked for resources/subscribe") < 3 {
		h.status("s")
	}
}

func TestAllowed(t *testing.T) {
	s := stdioServer(t, "s", "plain")
	s.AllowedTools = []string{"odd", "echo"}
	h := start(t, Config{}, s)
	if names := h.tools(); !slices.Equal(names, []string{"s__odd", "s__echo"}) {
		t.Errorf("tools %v", names)
	}
	wants(t, h.rpc("", "s", "tools/call", `{"name":"a__b"}`), `"error":"tool not allowed: a__b"`)
	wants(t, h.ask("call_tool", `{"name":"s__a__b"}`), `"error":"tool not allowed: a__b"`)
}

func (h *host) refresh(servers ...wire.Server) {
	h.t.Helper()
	patient(servers)
	line, err := rawjson.Encode(wire.RefreshParams{Servers: h.programs.Define(servers)})
	if err != nil {
		h.t.Fatal(err)
	}
	wants(h.t, h.ask("refresh", string(line)), `"ok":true`)
}

func (h *host) pid(server string) string {
	h.t.Helper()
	return string(rawjson.Get([]byte(h.rpc("", server, "tools/call", `{"name":"pid"}`)), "result", "pid"))
}

// TestRefresh changes one server of three and sees the others untouched.
func TestRefresh(t *testing.T) {
	a, b, c := stdioServer(t, "a", "plain"), stdioServer(t, "b", "plain"), stdioServer(t, "c", "plain")
	h := start(t, Config{}, a, b, c)
	pa, pb := h.pid("a"), h.pid("b")
	answer, _ := h.post("rpc", rpcParams("", "a", "tools/call", `{"name":"hang"}`))
	h.unasked()
	gone, _ := h.post("rpc", rpcParams("", "b", "tools/call", `{"name":"hang"}`))
	h.unasked()
	b.Env["NEW"] = "1"
	h.refresh(b, a, stdioServer(t, "d", "plain"))
	wants(t, h.await(gone), `"error":"the server was removed`)
	if h.pid("a") != pa {
		t.Error("a was restarted")
	}
	if h.pid("b") == pb {
		t.Error("b was not restarted")
	}
	h.pid("d")
	wants(t, h.rpc("", "c", "tools/call", `{"name":"x"}`), "server not found: c")
	select {
	case line := <-answer:
		t.Errorf("the call to a ended: %s", line)
	default:
	}
}

// TestLimits changes the limits while servers run.
func TestLimits(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	deep := func(n int) string {
		return fmt.Sprintf(`{"name":"broken","line":%s}`, rawjson.Quote(`{"jsonrpc":"2.0","id":ID,"result":{"a":`+strings.Repeat("[", n)+strings.Repeat("]", n)+`}}`))
	}
	wants(t, h.rpc("", "s", "tools/call", `{"name":"medium"}`), `"result":{`)
	wants(t, h.rpc("", "s", "tools/call", deep(100)), `"result":{`)
	wants(t, h.ask("limits", `{"max_result":1048576,"max_depth":50}`), `"ok":true`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"medium"}`), `over the limit of 1048576`)
	wants(t, h.rpc("", "s", "tools/call", deep(100)), `the answer of the server: nested deeper than 50`)
	wants(t, h.rpc("", "s", "tools/call", deep(48)), `"result":{`)
	wants(t, h.ask("limits", `{"max_result":1099511627776,"max_request":4194304,"max_depth":100000}`), `"ok":true`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"big"}`), `"result":{`)
	wants(t, h.rpc("", "s", "tools/call", deep(600)), `nested deeper than 512`)
	wants(t, h.rpc("", "s", "tools/call", `{"name":"`+strings.Repeat("x", 3<<20)+`"}`), `"echo"`)
	wants(t, h.ask("limits", `{"max_result":"x"}`), `"error":"limits: `)
}

// TestRefreshFaults has definitions that mean nothing among one that does.
func TestRefreshFaults(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "a", "plain"))
	pid := h.pid("a")
	a := []wire.Server{stdioServer(t, "a", "plain")}
	patient(a)
	kept, err := rawjson.Encode(h.programs.Define(a))
	if err != nil {
		t.Fatal(err)
	}
	line := h.ask("refresh", `{"servers":[`+string(rawjson.Elements(kept)[0])+`,{"name":"b","url":"ftp://x"},{"name":"c","headers":7},7,{"name":"e__f","url":"http://x"},{"name":"g"},{"name":"b","url":"http://127.0.0.1:1"},{"name":"off","enabled":false}]}`)
	for i, want := range []string{
		`server 2, "b": the url is neither http nor https`, `server 3, "c": its definition does not parse: `, `server 4, "": `,
		`server 5, "e__f": the server name "e__f" has "__" in it`, `server 6, "g": neither url nor command`, `server 7, "b": another server is named b`,
	} {
		if !strings.Contains(rawjson.GetString([]byte(line), "error"), want) {
			t.Errorf("%d: %s does not have %s", i+2, line, want)
		}
	}
	if h.pid("a") != pid {
		t.Error("the server without a fault was restarted")
	}
}

// alive returns a FIFO for a server's ALIVE, and what tells of its end.
func alive(t *testing.T) (path string, up, gone <-chan struct{}) {
	path = filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	u, g := make(chan struct{}), make(chan struct{})
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	go func() {
		in := bufio.NewReader(r)
		for {
			if _, err := in.ReadString('\n'); err == nil {
				break
			}
		}
		close(u)
		for {
			if _, err := in.ReadByte(); err != nil {
				break
			}
		}
		close(g)
	}()
	return path, u, g
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal(what + " does not come")
	}
}

func TestIdle(t *testing.T) {
	path, up, gone := alive(t)
	s := stdioServer(t, "s", "plain", "ALIVE", path)
	s.IdleTimeout = wire.Duration(100 * time.Millisecond)
	h := start(t, Config{}, s)
	h.tools()
	within(t, "the start", up)
	within(t, "the end by idleness", gone)
	h.awaitState("s", wire.Stopped)
	if n := len(h.tools()); n != 3 {
		t.Errorf("%d tools of a stopped server, want the 3 it had", n)
	}
	if st := h.status("s"); st.State != wire.Stopped || st.ToolCount != 3 || st.Error != "" {
		t.Errorf("listing started it again: %+v", st)
	}
}

// TestFamily ends a server that has a child holding its pipes: the child dies too.
func TestFamily(t *testing.T) {
	for _, how := range []string{"shutdown", "crash"} {
		t.Run(how, func(t *testing.T) {
			h := start(t, Config{}, stdioServer(t, "s", "family"))
			h.pid("s")
			m := regexp.MustCompile(`kid (\d+)`).FindStringSubmatch(h.log.String())
			for m == nil {
				h.status("s")
				m = regexp.MustCompile(`kid (\d+)`).FindStringSubmatch(h.log.String())
			}
			if how == "shutdown" {
				wants(t, h.ask("shutdown", ""), `"ok":true`)
			} else {
				wants(t, h.rpc("", "s", "tools/call", `{"name":"die"}`), "exit status 7")
			}
			kid, _ := strconv.Atoi(m[1])
			for end := time.Now().Add(patience); running(kid); {
				if time.Now().After(end) {
					t.Fatalf("process %d still runs", kid)
				}
			}
		})
	}
}

// running reports whether a process is there and no zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && os.IsPermission(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET", "1")
	h := start(t, Config{}, stdioServer(t, "s", "plain", "OWN", "2"))
	line := h.rpc("", "s", "tools/call", `{"name":"env"}`)
	wants(t, line, `PATH=/usr/local/sbin:`, `OWN=2`, `HOME=`)
	if strings.Contains(line, "SECRET") {
		t.Error("the secret was passed on: " + line)
	}
}

func TestRequestTooLong(t *testing.T) {
	h := start(t, Config{}, stdioServer(t, "s", "plain"))
	wants(t, h.rpc("", "s", "tools/call", `{"name":"`+strings.Repeat("x", 1200000)+`"}`), `"error":"the request: message of 12`, "over the limit of 1048576")
	wants(t, h.rpc("", "s", "tools/call", `{"name":"x"}`), `"echo"`)
}

// TestEndOfInput lets what is under way be answered and ends the servers.
func TestEndOfInput(t *testing.T) {
	path, up, gone := alive(t)
	h := start(t, Config{}, stdioServer(t, "s", "plain", "ALIVE", path))
	answer, _ := h.post("rpc", rpcParams("", "s", "tools/call", `{"name":"x"}`))
	h.in.Close()
	wants(t, h.await(answer), `"echo"`)
	within(t, "the start", up)
	within(t, "the end", gone)
}
