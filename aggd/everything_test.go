package aggd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/fs/need"
)

// direct speaks with a stdio server with nothing between.
type direct struct {
	t    testing.TB
	in   io.WriteCloser
	out  *bufio.Reader
	next int
}

func openDirect(t testing.TB, capabilities string, argv ...string) *direct {
	cmd := exec.Command(argv[0], argv[1:]...)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal("cannot start", argv)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	d := &direct{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	d.rpc("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"hutch","version":"1"}}`)
	fmt.Fprintln(d.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return d
}

// rpc makes a request and returns its answer; what else comes it passes over.
func (d *direct) rpc(method, params string) []byte {
	d.next++
	fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", d.next, method, params)
	for {
		line, err := d.out.ReadBytes('\n')
		if err != nil {
			d.t.Fatal(err)
		}
		switch m, _ := jsonrpc.Parse(line); {
		case m.Method == "roots/list":
			fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`+"\n", m.ID)
		case m.Method != "" && m.HasID():
			fmt.Fprintf(d.in, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", m.ID)
		case string(m.ID) == fmt.Sprint(d.next):
			return outcomeOf(m)
		}
	}
}

func outcomeOf(m jsonrpc.Message) []byte {
	if m.Error != nil {
		return append(append([]byte(`{"error":`), m.Error...), '}')
	}
	return append(append([]byte(`{"result":`), m.Result...), '}')
}

// same asks both the same and compares.
func (d *direct) same(h *host, client, what, method, params string) []byte {
	d.t.Helper()
	want := d.rpc(method, params)
	line := []byte(h.rpc(client, "ev", method, params))
	got := outcomeOf(jsonrpc.Message{Result: rawjson.Get(line, "result"), Error: rawjson.Get(line, "rpc_error")})
	sameJSON(d.t, what, need.Clock.ReplaceAll(got, nil), need.Clock.ReplaceAll(want, nil))
	return got
}

// calls are arguments for the tools that need some; a name left out is called with
// none, one with "" not at all, for its answer differs from call to call.
var calls = map[string]string{
	"echo":                           `{"message":"<a> \u00e4 & b"}`,
	"get-sum":                        `{"a":2,"b":3}`,
	"get-annotated-message":          `{"messageType":"error","includeImage":true}`,
	"get-structured-content":         `{"location":"New York"}`,
	"get-resource-links":             `{"count":3}`,
	"get-resource-reference":         `{"resourceType":"Text","resourceId":1}`,
	"get-env":                        "", // its own environment
	"gzip-file-as-resource":          "", // fetches from the network
	"trigger-long-running-operation": `{"duration":0.2,"steps":2}`,
	"toggle-simulated-logging":       "", // starts what comes by time
	"toggle-subscriber-updates":      "",
	"simulate-research-query":        "", // a task
}

// compareAll compares every list, call, prompt and resource of server-everything.
func compareAll(t *testing.T, d *direct, h *host, client string) {
	lists := map[string]string{"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
	listed := map[string][][]byte{}
	for method, field := range lists {
		got := d.same(h, client, method, method, "{}")
		listed[field] = rawjson.Elements(rawjson.Get(got, "result", field))
		if len(listed[field]) == 0 {
			t.Errorf("%s is empty", method)
		}
	}
	compareCatalog(t, h, client, listed)
	for _, tool := range listed["tools"] {
		name := text(tool, "name")
		arguments, special := calls[name]
		if special && arguments == "" || strings.HasPrefix(name, "trigger-") && !special {
			continue
		}
		if arguments == "" {
			arguments = "{}"
		}
		d.same(h, client, name, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	}
	d.same(h, client, "bad arguments", "tools/call", `{"name":"get-sum","arguments":{"a":"x"}}`)
	d.same(h, client, "no tool", "tools/call", `{"name":"no-such-tool","arguments":{}}`)
	for _, p := range listed["prompts"] {
		d.same(h, client, "prompt", "prompts/get", fmt.Sprintf(`{"name":%q,"arguments":{"city":"Paris","state":"x","department":"Engineering","name":"Alice","resourceType":"Text","resourceId":"1"}}`, text(p, "name")))
	}
	for _, r := range listed["resources"] {
		d.same(h, client, "resource", "resources/read", fmt.Sprintf(`{"uri":%q}`, text(r, "uri")))
	}
	d.same(h, client, "completion", "completion/complete", `{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"E"}}`)
	d.same(h, client, "level", "logging/setLevel", `{"level":"error"}`)
	d.same(h, client, "subscribe", "resources/subscribe", `{"uri":"demo://resource/dynamic/text/1"}`)
	d.same(h, client, "unknown", "no/such/method", `{}`)
}

// compareCatalog compares the raw items of the catalog with those of the lists.
func compareCatalog(t *testing.T, h *host, client string, listed map[string][][]byte) {
	for method, field := range map[string]string{"list_tools": "tools", "list_resources": "resources", "list_templates": "resourceTemplates", "list_prompts": "prompts"} {
		var items []struct{ Raw json.RawMessage }
		line := []byte(h.ask(method, fmt.Sprintf(`{"client":%q}`, client)))
		own := strings.TrimPrefix(method, "list_")
		if err := json.Unmarshal(rawjson.Get(line, own), &items); err != nil {
			t.Fatal(err)
		}
		if len(items) != len(listed[field]) {
			t.Errorf("%s has %d items, the server %d", method, len(items), len(listed[field]))
			continue
		}
		for i := range items {
			if string(items[i].Raw) != string(listed[field][i]) {
				t.Errorf("%s: %s, want %s", method, items[i].Raw, listed[field][i])
			}
		}
	}
}

// answerRoots answers what servers ask while a test does other things.
func answerRoots(h *host, stop <-chan struct{}) {
	for {
		select {
		case line := <-h.unread:
			rid := rawjson.Get([]byte(line), "request", "rid")
			if strings.Contains(line, `"method":"roots/list"`) {
				h.post("reply", `{"rid":`+string(rid)+`,"result":{"roots":[]}}`)
			} else if rid != nil {
				h.post("reply", `{"rid":`+string(rid)+`,"error":{"code":-32601,"message":"no"}}`)
			}
		case <-stop:
			return
		}
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	nodejs, program := need.Everything(t)
	for _, capabilities := range []string{`{}`, `{"sampling":{},"elicitation":{},"roots":{"listChanged":true}}`} {
		t.Run("stdio "+capabilities, func(t *testing.T) {
			h := start(t, Config{}, wire.Server{Name: "ev", Program: wire.Program{Command: nodejs, Args: []string{program, "stdio"}}})
			compareWith(t, h, capabilities)
		})
		t.Run("http "+capabilities, func(t *testing.T) {
			h := start(t, Config{}, wire.Server{Name: "ev", URL: need.ServeEverything(t)})
			compareWith(t, h, capabilities)
		})
	}
}

func compareWith(t *testing.T, h *host, capabilities string) {
	nodejs, program := need.Everything(t)
	stop := make(chan struct{})
	defer close(stop)
	go answerRoots(h, stop)
	d := openDirect(t, capabilities, nodejs, program, "stdio")
	client := h.client(capabilities)
	// some tools are registered a moment after the session has begun
	for len(rawjson.Elements(rawjson.Get(d.rpc("tools/list", "{}"), "result", "tools"))) !=
		len(rawjson.Elements(rawjson.Get([]byte(h.rpc(client, "ev", "tools/list", "")), "result", "tools"))) {
	}
	compareAll(t, d, h, client)
}
