package hostmcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// A rawPeer is a client that writes what it likes.
type rawPeer struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Reader
}

func (s *site) wire() *rawPeer {
	in, out := s.pipes(Config{Version: "test"})
	return &rawPeer{s.t, in, bufio.NewReaderSize(out, 1<<20)}
}

func (w *rawPeer) send(format string, a ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", a...); err != nil {
		w.t.Fatal(err)
	}
}

// line reads the next line, which is to have each of want in it.
func (w *rawPeer) line(want ...string) string {
	w.t.Helper()
	line, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	for _, part := range want {
		if !strings.Contains(line, part) {
			w.t.Errorf("%s has no %s", line, part)
		}
	}
	return line
}

// TestRubbish sends what is no request.
func TestRubbish(t *testing.T) {
	w := newSite(t).wire()
	for _, line := range []string{"rubbish", `{"jsonrpc":"2.0","id":1`, `[]`, `"x"`, `7`, "\x00\xff",
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`} {
		w.send("%s", line)
		w.line(`"error"`, `"id":null`)
	}
	w.send("\n  \n")
	w.send(`{"jsonrpc":"1.0","id":1,"method":"ping"}`)
	w.line(`"id":1`, "-32600")
	w.send(`{"jsonrpc":"2.0","id":"a","method":"no/such"}`)
	w.line(`"id":"a"`, "-32601")
	w.send(`{"jsonrpc":"2.0","method":"notifications/no/such"}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":[1]}}}`)
	w.send(`{"jsonrpc":"2.0","id":5,"result":{}}`) // to what we did not ask
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"no_tool"}}`)
	w.line(`"id":2`, "-32602")
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hutch_list","arguments":[1]}}`)
	w.line(`"id":3`, "the arguments are to be an object", `"isError":true`)
	w.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`)
	w.line(`"id":9007199254740993`, `"result"`)
	w.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":7}`)
	w.line(`"id":4`, `"error"`)
	w.send(`{"jsonrpc":"2.0","id":4,"method":"ping"}`) // the id is free again
	w.line(`"id":4`, `"result"`)
}

// TestTooLong sends a line that does not end.
func TestTooLong(t *testing.T) {
	s := newSite(t)
	fromClient, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(t.Context(), Config{Address: s.addr, Log: io.Discard}, fromClient, io.Discard)
		fromClient.Close()
	}()
	for chunk := make([]byte, 1<<20); ; {
		if _, err := in.Write(chunk); err != nil {
			break
		}
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "a message of more than") {
		t.Error(err)
	}
}

// TestEnd ends the input while a call is under way, which is answered.
func TestEnd(t *testing.T) {
	w := newSite(t).wire()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hutch_run","arguments":{"command":"echo done"}}}`)
	w.in.Close()
	w.line(`"id":1`, `done\n`)
	if rest, err := io.ReadAll(w.out); len(rest) > 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
}

// TestUnread ends the input of a server whose answers nobody reads.
func TestUnread(t *testing.T) {
	t.Parallel()
	out, toClient := io.Pipe()
	defer out.Close() // ends the write
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	if err := Serve(t.Context(), Config{Address: newSite(t).addr, Log: io.Discard}, in, toClient); err != nil {
		t.Error(err)
	}
}

// TestStuck writes until no more is taken, as no answer is read. The end of the
// input and a signal are noticed all the same.
func TestStuck(t *testing.T) {
	for _, end := range []string{"input", "signal"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			in, fromClient := pipe(t)
			_, toClient := pipe(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, Config{Address: newSite(t).addr, Log: io.Discard}, in, toClient) }()
			ping := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"` + strings.Repeat("x", 1000) + `"}}` + "\n")
			for stuck := false; !stuck; {
				fromClient.SetWriteDeadline(time.Now().Add(time.Second))
				_, err := fromClient.Write(ping)
				stuck = errors.Is(err, os.ErrDeadlineExceeded)
			}
			if end == "input" {
				fromClient.Close()
			} else {
				cancel()
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// pipe returns the ends of a pipe, which are closed when the test ends.
func pipe(t *testing.T) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestRevisions speaks the revision without initialize, and an old one.
func TestRevisions(t *testing.T) {
	s := newSite(t)
	w := s.wire()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	w.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}`, meta)
	w.line(`"2026-07-28"`, `"2024-11-05"`, `"resultType":"complete"`, `"subscribe":true`)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{%s}}`, meta)
	w.line(`"hutch_exec"`, `"cacheScope"`)
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hutch_list",%s}}`, meta)
	w.line(`"structuredContent":{"sandboxes":[]}`)
	w.send(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"hutch:///nothing",%s}}`, meta)
	w.line("-32602", "file does not exist: nothing", `"data":{"uri":"hutch:///nothing"}`)
	for range 20 { // of what there is none to tell: it is acknowledged before it ends
		w.send(`{"jsonrpc":"2.0","id":"none","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},%s}}`, meta)
		w.line("acknowledged", `"io.modelcontextprotocol/subscriptionId":"none"`)
		w.line(`"id":"none"`, `"result"`)
	}
	w.send(`{"jsonrpc":"2.0","id":6,"method":"server/discover","params":{}}`)
	w.line(`"id":6`, "-32602")
	w.send(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["hutch:///status"]},%s}}`, meta)
	w.line("acknowledged", `"io.modelcontextprotocol/subscriptionId":"sub"`)
	w.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"hutch_create","arguments":{"name":"dev"},%s}}`, meta)
	w.line("notifications/resources/updated", `"io.modelcontextprotocol/subscriptionId":"sub"`, `"uri":"hutch:///status"`)
	w.in.Close()

	w = s.wire()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	w.line(`"protocolVersion":"2024-11-05"`)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"hutch:///nothing"}}`)
	w.line("-32002")
}

// TestBatch has several messages in one, in the revision that has them.
func TestBatch(t *testing.T) {
	w := newSite(t).wire()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	w.line(`"protocolVersion":"2025-03-26"`)
	w.send(`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hutch_list"}},7,` +
		`{"jsonrpc":"2.0","id":"p","method":"ping"},{"jsonrpc":"2.0","id":3,"method":"initialize"},{"jsonrpc":"2.0","id":4,"result":{}}]`)
	line := w.line(`"id":2`, `"sandboxes":[]`, `"id":"p"`, `"id":null`, `initialize stands in no batch`)
	var answers []struct{ ID any }
	if err := json.Unmarshal([]byte(line), &answers); err != nil || len(answers) != 4 {
		t.Errorf("%v: %s", err, line)
	}
	w.send(`[{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"hutch_asks","arguments":{"wait":3600}}},{"jsonrpc":"2.0","id":6,"method":"ping"},` +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}]`)
	w.line(`[{"jsonrpc":"2.0","id":6,"result":{}}]`)
	w.send(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`) // has no answer
	w.send(`[]`)
	w.line(`"id":null`, "a batch of 0 messages")
	w.send("[%s7]", strings.Repeat("7,", 128))
	w.line(`"id":null`, "a batch of 129 messages")
}

// TestPrefix has the names of Capsem's tools.
func TestPrefix(t *testing.T) {
	in, out := newSite(t).pipes(Config{Prefix: "capsem_"})
	w := &rawPeer{t, in, bufio.NewReaderSize(out, 1<<20)}
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	line := w.line()
	for name := range strings.FieldsSeq("create list info exec run read_file write_file stop suspend resume persist delete purge fork vm_logs " +
		"service_logs host_logs panics triage timeline inspect_schema inspect version mcp_connectors mcp_add mcp_delete") {
		if !strings.Contains(line, `"name":"capsem_`+name+`"`) {
			t.Errorf("no capsem_%s", name)
		}
	}
	if strings.Contains(line, "hutch_") {
		t.Error("names with hutch_")
	}
}

// TestProgress reads what a command prints as it prints it.
func TestProgress(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	dir := t.TempDir()
	q := &mcp.CallToolParams{Name: "hutch_exec", Arguments: args{"id": "dev", "command": "echo first; cat " + filepath.Join(dir, "go") + "; echo last >&2"}}
	q.SetProgressToken("token")
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), q)
		done <- err
	}()
	if p := <-c.progress; p.Message != "first\n" || p.Progress != 6 || p.ProgressToken != "token" {
		t.Errorf("progress %+v", p)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0); err != nil { // it runs on only now
		t.Fatal(err)
	}
	if p := <-c.progress; p.Message != "last\n" || p.Progress != 11 {
		t.Errorf("progress %+v", p)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCancel takes calls back, which kills their commands.
func TestCancel(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	for _, call := range []struct {
		tool string
		args args
	}{{"exec", args{"id": "dev"}}, {"run", args{}}} {
		fifo := filepath.Join(t.TempDir(), "held")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		call.args["command"] = "exec 9>" + fifo + "; echo up; sleep 1000"
		q := &mcp.CallToolParams{Name: "hutch_" + call.tool, Arguments: call.args}
		q.SetProgressToken(call.tool)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, q)
			done <- err
		}()
		held, err := os.Open(fifo) // once the command has it open, too
		if err != nil {
			t.Fatal(err)
		}
		<-c.progress
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", call.tool, err)
		}
		if _, err := io.ReadAll(held); err != nil { // ends when the command has
			t.Error(err)
		}
		held.Close()
	}
	if got := plain(t, c.call("list", nil)); strings.Count(got, `"running"`) != 1 {
		t.Errorf("left: %s", got)
	}
}

// TestTimeout has a command's time run out.
func TestTimeout(t *testing.T) {
	c := newSite(t).connect()
	got := c.call("run", args{"command": "echo up; sleep 1000", "timeout": 1})
	if got["timed_out"] != true || got["exit_code"] != 124.0 || got["stdout"] != "up\n" || !strings.Contains(got["reason"].(string), "its timeout of 1 s") {
		t.Errorf("%v", got)
	}
	got = c.call("run", args{"command": "kill -9 $$"})
	if got["signal"] != "SIGKILL" || got["exit_code"] != 137.0 {
		t.Errorf("%v", got)
	}
	got = c.call("run", args{"command": "sleep 1000 & echo left"}) // which has the output open
	if got["stdout"] != "left\n" || got["exit_code"] != 0.0 || got["output_open"] != true {
		t.Errorf("%v", got)
	}
}

// TestMuch has a hundred calls under way at once, and one answered that is
// larger than any buffer.
func TestMuch(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if i%4 == 0 {
				want := fmt.Sprintf("file does not exist: no vm %q", fmt.Sprint("none", i))
				c.fails("info", args{"id": fmt.Sprint("none", i)}, want) // not the text of another's error
				return
			}
			if got := c.call("exec", args{"id": "dev", "command": fmt.Sprint("echo ", i)}); got["stdout"] != fmt.Sprintln(i) {
				t.Errorf("%d: %v", i, got)
			}
		})
	}
	all.Wait()
	got := c.call("exec", args{"id": "dev", "command": "head -c 3000000 /dev/zero | tr '\\0' x", "limit": 4 << 20})
	if len(got["stdout"].(string)) != 3000000 || got["truncated"] != nil {
		t.Errorf("%d bytes", len(got["stdout"].(string)))
	}
	got = c.call("exec", args{"id": "dev", "command": "seq 3000000", "limit": 3})
	if got["stdout"] != "1\n2" || got["truncated"] != true {
		t.Errorf("%v", got)
	}
	read := args{"id": "dev", "exec": got["exec"], "offset": 0, "limit": maxPart}
	var text strings.Builder
	for first := true; ; first = false {
		part := c.call("output", read)
		if off := part["offset"].(float64); first && off < 1e6 || !first && off != read["offset"] {
			t.Fatalf("a part begins at %v: %v", off, read)
		}
		text.WriteString(part["content"].(string))
		next, more := part["next_offset"]
		if !more {
			break
		}
		read["offset"] = next
	}
	if !strings.HasSuffix(text.String(), "\n2999999\n3000000\n") || text.Len() < 15<<20 {
		t.Errorf("the last of much: %d bytes", text.Len())
	}
}

// TestHeavy has more bytes of requests under way than there may be.
func TestHeavy(t *testing.T) {
	w := newSite(t).wire()
	pad := strings.Repeat("x", 25<<20)
	for id := range 3 {
		w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hutch_asks","arguments":{"wait":3600},"_meta":{"pad":"%s"}}}`, id, pad)
	}
	w.line(`"id":2`, "bytes are under way")
}

// TestSlowReader leaves answers and progress unread for long: nothing is lost,
// and the command waits.
func TestSlowReader(t *testing.T) {
	w := newSite(t).wire()
	w.send(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"hutch_create","arguments":{"name":"dev"}}}`)
	w.line()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hutch_exec","arguments":{"id":"dev","command":"seq 100000","limit":1000000},"_meta":{"progressToken":7}}}`)
	for i := range 20 {
		w.send(`{"jsonrpc":"2.0","id":"p%d","method":"ping"}`, i)
	}
	var printed strings.Builder
	for pings, result := 0, ""; pings < 20 || result == ""; {
		var m struct {
			ID     any
			Params struct{ Message string }
			Result struct {
				StructuredContent struct{ Stdout string }
			}
		}
		if err := json.Unmarshal([]byte(w.line()), &m); err != nil {
			t.Fatal(err)
		}
		printed.WriteString(m.Params.Message)
		if _, ok := m.ID.(string); ok {
			pings++
		}
		if m.ID != 1.0 {
			continue
		}
		if result = m.Result.StructuredContent.Stdout; result != printed.String() || !strings.HasSuffix(result, "\n100000\n") {
			t.Errorf("progress told %d bytes, the result %d", printed.Len(), len(result))
		}
	}
}

// TestFlood asks for more at once than there may be.
func TestFlood(t *testing.T) {
	w := newSite(t).wire()
	w.send(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"hutch_version"}}`)
	w.line()
	go func() {
		for i := range maxCalls + 10 {
			fmt.Fprintf(w.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hutch_asks","arguments":{"wait":3600}}}`+"\n", i)
		}
	}()
	for range 10 {
		w.line("256 requests are under way")
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
}
