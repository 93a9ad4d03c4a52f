package aggd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// stdioServer defines the test binary itself as a server of the given mode.
func stdioServer(t testing.TB, name, mode string, env ...string) wire.Server {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Server{Name: name, Enabled: true, Program: wire.Program{Command: self, Env: map[string]string{"AGGD_TEST_SERVER": mode}}}
	for i := 0; i+1 < len(env); i += 2 {
		s.Env[env[i]] = env[i+1]
	}
	return s
}

// odd is a tool with all that a typed layer would lose.
const odd = `{ "name":"odd","inputSchema":{"type":"object","$defs":{"a":{"const":12345678901234567890}},"unevaluatedProperties":false},"x-new":{"b":1,"a":2},"description":"<&> \u00e4","execution":{"taskSupport":"optional"} }`

// noise are lines that no call is to notice; ID is the id of the one under way.
var noise = []string{
	`{"level":"info","msg":"starting"}`,
	`{"level":"error","error":"disk full"}`,
	`{"level":"error","error":{"code":5,"message":"disk full"},"id":null}`,
	`{"id":ID,"level":"info","result":"fine"}`,
	`{"id":ID,"method":"GET","path":"/"}`,
	`{"method":"notifications/message","params":{"data":"from a log"}}`,
	`{"jsonrpc":"1.0","id":ID,"result":{}}`,
	`{"id":ID,"msg":"cut`,
	`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"cut`,
	`[{"level":"info"},"x",{"id":ID}]`,
	`"a text"`, `7`, `null`,
	`{"jsonrpc":"2.0","id":"nobody","result":{}}`,
	`{"jsonrpc":"2.0","id":999999,"result":{}}`,
	`{"jsonrpc":"2.0","id":"nobody","error":{"code":1,"message":"x"}}`,
	`{"jsonrpc":"2.0","id":{"a":1},"result":{}}`,
	`{"jsonrpc":"2.0"}`,
}

// fake is a raw MCP server: it decodes nothing it need not.
type fake struct {
	mode string
	mu   sync.Mutex
	out  io.Writer
	caps atomic.Value // a string: of the client
	more atomic.Bool  // tools/list has one more
	sulk atomic.Bool  // pings are not answered
}

func serveStdio(mode string) {
	f := &fake{mode: mode, out: os.Stdout}
	switch mode {
	case "silent":
		io.Copy(io.Discard, os.Stdin)
		return
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "crash":
		fmt.Fprintln(os.Stderr, "cannot find module x")
		os.Exit(3)
	case "family":
		// a grandchild that holds the pipes open and outlives a careless parent
		kid := exec.Command("sleep", "1000")
		kid.Stdout, kid.Stderr = os.Stdout, os.Stderr
		if err := kid.Start(); err != nil {
			os.Exit(4)
		}
		fmt.Fprintln(os.Stderr, "kid", kid.Process.Pid)
	}
	if path := os.Getenv("ALIVE"); path != "" { // a FIFO that somebody reads to see us end
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			os.Exit(5)
		}
		defer w.Close()
		fmt.Fprint(w, "up\n")
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		f.line(bytes.TrimSpace(line), f.write)
	}
}

func (f *fake) write(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	io.WriteString(f.out, line+"\n")
}

// line answers one message.
func (f *fake) line(line []byte, write func(string)) {
	id, params := string(rawjson.Get(line, "id")), rawjson.Get(line, "params")
	method := rawjson.GetString(line, "method")
	result := func(format string, args ...any) {
		write(`{"result":` + fmt.Sprintf(format, args...) + `,"jsonrpc":"2.0","id":` + id + `}`)
	}
	switch method {
	case "server/discover":
		switch f.mode {
		case "touchy":
			os.Exit(9)
		case "mute":
			return
		}
		write(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"method not found"}}`)
	case "ping":
		if !f.sulk.Load() {
			result("{}")
		}
	case "initialize":
		f.caps.Store(string(rawjson.Get(params, "capabilities")))
		if f.mode == "picky" && f.caps.Load() != "{}" && !gateOpen() {
			fmt.Fprintln(os.Stderr, "no memory for another")
			os.Exit(6)
		}
		version := "2025-06-18"
		if f.mode == "old" {
			version = "1999-01-01"
		}
		result(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`, version)
	case "tools/list":
		if f.mode == "tardy" && !gateOpen() {
			write(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"no list yet"}}`)
			return
		}
		f.more.Store(f.more.Load() || f.mode == "picky" && f.caps.Load() != "{}")
		f.listTools(params, result)
	case "resources/list":
		if f.mode == "stuck" {
			return
		}
		result(`{"resources":[{"uri":"test://a/b?c","name":"r","mimeType":"text/x"}]}`)
	case "resources/templates/list":
		result(`{"resourceTemplates":[{"uriTemplate":"test://{x}","name":"t"}]}`)
	case "prompts/list":
		result(`{"prompts":[{"name":"p__q","arguments":[{"name":"a","required":true}]}]}`)
	case "resources/read", "prompts/get":
		result(`{"echo":%s}`, params)
	case "tools/call":
		f.call(id, params, result, write)
	case "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		fmt.Fprintln(os.Stderr, "asked for", method)
		result("{}")
	case "notifications/cancelled":
		fmt.Fprintf(os.Stderr, "cancelled %s\n", params)
	case "notifications/roots/list_changed":
		write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"roots changed"}}`)
	case "":
		fmt.Fprintf(os.Stderr, "answer %.200s\n", line)
		write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":` + string(line) + `}}`)
	case "notifications/initialized":
	default:
		write(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32601,"message":"no <such> method","data":{"big":12345678901234567890}}}`)
	}
}

// gateOpen reports whether the test has made the file that the server waits for.
func gateOpen() bool {
	_, err := os.Stat(os.Getenv("GATE"))
	return err == nil
}

func (f *fake) listTools(params []byte, result func(string, ...any)) {
	cursor := rawjson.GetString(params, "cursor")
	switch {
	case f.mode == "cursor":
		result(`{"tools":[{"name":"x","inputSchema":{"type":"object"}}],"nextCursor":"same"}`)
	case cursor == "":
		result(`{"tools":[%s],"nextCursor":"page 2"}`, odd)
	case f.more.Load():
		result(`{"tools":[{"name":"echo","description":"e","inputSchema":{"type":"object"},"annotations":{"title":"E","readOnlyHint":true}},{"name":"a__b","inputSchema":{"type":"object"}},{"name":"extra","inputSchema":{"type":"object"}}]}`)
	default:
		result(`{"tools":[{"name":"echo","description":"e","inputSchema":{"type":"object"},"annotations":{"title":"E","readOnlyHint":true}},{"name":"a__b","inputSchema":{"type":"object"}}]}`)
	}
}

func (f *fake) call(id string, params []byte, result func(string, ...any), write func(string)) {
	token := string(rawjson.Get(params, "_meta", "progressToken"))
	progress := func(n int) {
		write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":%s,"new":12345678901234567890}}`, n, token))
	}
	switch rawjson.GetString(params, "name") {
	case "hang":
		write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hanging"}}`)
	case "die":
		fmt.Fprintln(os.Stderr, "dying words")
		os.Exit(7)
	case "rubbish":
		write("this is no JSON")
		write(`{"jsonrpc":`)
		write(`[1,2,"x"]`)
		write(strings.Repeat("[", 100000))
		result(`{"ok":1}`)
	case "flood":
		for i := range 6000 {
			write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":%d}}`, i))
		}
		result(`{"ok":1}`)
	case "noise":
		for _, line := range noise {
			write(strings.ReplaceAll(line, "ID", id))
		}
		result(`{"ok":1}`)
	case "broken":
		write(strings.ReplaceAll(rawjson.GetString(params, "line"), "ID", id))
	case "endless":
		for {
			if _, err := io.WriteString(f.out, strings.Repeat("x", 1<<20)); err != nil {
				os.Exit(8)
			}
		}
	case "unusual":
		write(`{"jsonrpc":"2.0","method":"notifications/unusual","params":{"a":1}}`)
		result(`{}`)
	case "null":
		write(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`)
	case "big":
		result(`{"content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 30<<20))
	case "medium":
		result(`{"content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 8<<20))
	case "progress":
		progress(1)
		progress(2)
		result(`{"token":%s}`, token)
	case "late": // progress comes after the answer
		result(`{"token":%s}`, token)
		progress(3)
	case "ask":
		write(`{"jsonrpc":"2.0","id":"q-1","method":"sampling/createMessage","params":{"big":12345678901234567890}}`)
	case "askstop":
		write(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}`)
		write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"late"}}`)
		result(`{}`)
	case "askbatch":
		write(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"a","method":"sampling/createMessage","params":{}},{"jsonrpc":"2.0","id":"b","method":"roots/list"},` +
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"in a batch"}},{"jsonrpc":"2.0","id":` + id + `,"result":{"batch":true}}]`)
	case "askbatches":
		write(`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 1024) + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
		write(`[{"jsonrpc":"2.0","id":5,"method":"roots/list"},{"jsonrpc":"2.0","id":6,"method":"ping"}]`)
		write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
		result(`{}`)
	case "askping":
		write(`{"jsonrpc":"2.0","id":77,"method":"ping"}`)
		result(`{}`)
	case "change":
		f.more.Store(!f.more.Load())
		write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		result(`{}`)
	case "changes": // 300 times at once
		f.more.Store(true)
		for range 300 {
			write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		result(`{}`)
	case "sulk":
		f.sulk.Store(true)
		result(`{}`)
	case "fail":
		write(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"bad <args>","data":[12345678901234567890]}}`)
	case "env":
		result(`{"env":%s}`, rawjson.Quote(strings.Join(os.Environ(), "\n")))
	case "caps":
		result(`{"caps":%s}`, f.caps.Load())
	case "pid":
		result(`{"pid":%d}`, os.Getpid())
	default:
		result(`{"echo":%s}`, params)
	}
}
