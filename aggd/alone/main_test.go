package alone

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/aggd"
	"hutch/aggd/programs"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// The test binary is also the aggregator that it starts, and the servers of that.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "-programs":
		aggregate()
	case os.Getenv("ALONE_SERVER") != "":
		serveChild()
	default:
		os.Exit(m.Run())
	}
}

func aggregate() {
	syscall.SetNonblock(0, true)
	c, err := programs.NewClient(3)
	wait, err2 := time.ParseDuration(os.Args[4])
	if err == nil && err2 == nil {
		err = aggd.Run(context.Background(), aggd.Config{Programs: c, Log: os.Stderr, ListWait: wait}, os.NewFile(0, "stdin"), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answers are what the children of tests answer to a call of a tool, after "id":ID.
var answers = map[string]string{
	"text":     `"result":{"content":[{"type":"text","text":"File contents here..."}]}`,
	"odd":      `"result":{  "content":[{"type":"hologram","x":12345678901234567890,"y":1.50}] , "isError":false,"unknown":{"b":1, "a":[ ]} }`,
	"error":    `"error":{"code":-32603,"message":"File not found: /invalid/path.txt","data":{"errno":-2,"code":"ENOENT"}}`,
	"oddError": `"error":{  "data":12345678901234567890, "message":"no  <&> ","code":-7 ,"more":null}`,
}

// takes is a tool in the place of a bare one, of which a test says nothing but the name.
const takes = `{"name":"$1","inputSchema":{"type":"object"}}`

var bare = regexp.MustCompile(`\{"name":"([^"]+)"\}`)

// serveChild is a server: ALONE_SERVER says how it behaves, ALONE_TOOLS what it has.
func serveChild() {
	out := os.Stdout
	how := os.Getenv("ALONE_SERVER")
	switch how {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find module x")
		os.Exit(3)
	case "silent":
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	case "garbage":
		fmt.Print("hello\n\x00\xff\n[[[\n{\"id\":1}\n" + `{"jsonrpc":"2.0","id":1,"result":7}` + "\n")
	case "endless":
		for {
			if _, err := fmt.Print(strings.Repeat("x", 1<<20)); err != nil {
				os.Exit(0)
			}
		}
	}
	in := bufio.NewReader(os.Stdin)
	var hello []byte // the params of initialize
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if how == "stubborn" {
				time.Sleep(time.Hour)
			}
			return
		}
		id, params := rawjson.Get(line, "id"), rawjson.Get(line, "params")
		says := func(member string) { fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", id, member) }
		switch method, name := rawjson.GetString(line, "method"), rawjson.GetString(params, "name"); method {
		case "initialize":
			hello = params
			says(`"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{}},"serverInfo":{"name":"fake","version":"1"}}`)
		case "tools/list":
			says(`"result":{"tools":[` + os.Getenv("ALONE_TOOLS") + `]}`)
		case "resources/list":
			says(`"result":{"resources":[{"uri":"file:///a","name":"a","x":1}]}`)
		case "resources/templates/list":
			says(`"result":{"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"t"}]}`)
		case "prompts/list":
			says(`"result":{"prompts":[{"name":"greet"}]}`)
		case "tools/call":
			callTool(how, name, params, hello, says)
		case "logging/setLevel":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info", "data":%s}}`+"\n", params)
			says(`"result":{}`)
		case "notifications/cancelled":
			fmt.Fprintln(os.Stderr, "told: cancelled")
		default:
			if id != nil {
				says(`"result":{"method":` + string(rawjson.Quote(method)) + `,"params":` + string(params) + `}`)
			}
		}
	}
}

func callTool(how, name string, params, hello []byte, says func(string)) {
	switch {
	case how == "floods":
		for range 20_000 {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		says(`"result":{}`)
	case answers[name] != "":
		says(answers[name])
	case name == "hello":
		says(`"result":` + string(hello))
	case name == "hangs":
		fmt.Fprintln(os.Stderr, "hangs")
	case name == "dies":
		os.Exit(4)
	case name == "steps":
		fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1, "x":2}}`+"\n", rawjson.Get(params, "_meta", "progressToken"))
		says(`"result":{}`)
	case name == "changes":
		os.Setenv("ALONE_TOOLS", `{"name":"new","inputSchema":{"type":"object"}}`)
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		says(`"result":{}`)
	case name == "updates":
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`)
		says(`"result":{}`)
	case name == "long":
		says(`"result":{"text":"` + strings.Repeat("x", 17<<20) + `"}`)
	default:
		says(`"result":{"params":` + string(params) + `,"pid":` + fmt.Sprint(os.Getpid()) + `}`)
	}
}

// A client speaks with the aggregator.
type client struct {
	t     testing.TB
	in    io.WriteCloser
	lines chan string // closed at the end
	ended chan error
	log   record
}

type record struct {
	mu   sync.Mutex
	text strings.Builder
	news chan bool
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.news <- true:
	default:
	}
	return r.text.Write(p)
}

// await waits until the log has a text.
func (r *record) await(t testing.TB, text string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		has := strings.Contains(r.text.String(), text)
		r.mu.Unlock()
		if has {
			return
		}
		select {
		case <-r.news:
		case <-late:
			t.Fatalf("no %q in the log:\n%s", text, r.text.String())
		}
	}
}

// server returns an entry of a file that is the test binary.
func server(t testing.TB, how, tools string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"command": self, "env": map[string]string{"ALONE_SERVER": how, "ALONE_TOOLS": bare.ReplaceAllString(tools, takes)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// open serves the mcpServers of a file.
func open(t testing.TB, cfg Config, servers string) *client {
	t.Helper()
	list, err := parse([]byte(`{"mcpServers":`+servers+`}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].inherit("/", os.Environ())
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	c := &client{t: t, in: in, lines: make(chan string, 1<<16), ended: make(chan error, 1), log: record{news: make(chan bool, 1)}}
	cfg.Servers, cfg.Aggregator, cfg.Log = list, self, &c.log
	if cfg.ListWait == 0 {
		cfg.ListWait = time.Minute
	}
	go func() {
		defer close(c.lines)
		r := wire.NewReader(out, 64<<20)
		for {
			line, err := r.Read()
			if err != nil {
				return
			}
			c.lines <- string(line)
		}
	}()
	go func() { c.ended <- Serve(t.Context(), cfg, fromClient, toClient) }()
	t.Cleanup(func() {
		in.Close()
		select {
		case err := <-c.ended:
			c.ended <- err
		case <-time.After(30 * time.Second):
			t.Error("it does not end")
		}
	})
	return c
}

func (c *client) put(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next line that comes.
func (c *client) next() string {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.t.Fatalf("it has ended:\n%s", c.log.text.String())
		}
		return line
	case <-time.After(60 * time.Second):
		c.t.Fatal("no line comes")
	}
	return ""
}

// ask asks a question and returns the answer, past what else comes.
func (c *client) ask(id, method, params string) string {
	c.t.Helper()
	c.put(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	for {
		line := c.next()
		if string(rawjson.Get([]byte(line), "id")) == id {
			return line
		}
	}
}

// call calls a tool and returns the answer without its envelope.
func (c *client) call(name string) string {
	c.t.Helper()
	line := c.ask("77", "tools/call", `{"name":`+string(rawjson.Quote(name))+`,"arguments":{}}`)
	return strings.TrimSuffix(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":77,`), "}")
}
