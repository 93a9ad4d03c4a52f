package mcpd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"hutch/aggd/rawjson"
)

// A testServer is an MCP server on stdin and stdout, for tests. It speaks raw
// JSON so that tests see every byte.
type testServer struct {
	kind string

	mu      sync.Mutex // guards the fields below, and writes
	asked   int
	answers map[string]chan json.RawMessage
	cancels map[string]chan string
	events  []string
}

type testRequest struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
}

func serveTest(kind string) int {
	s := &testServer{kind: kind, answers: map[string]chan json.RawMessage{}, cancels: map[string]chan string{}}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0
		}
		var q testRequest
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			continue
		}
		switch {
		case q.Method == "":
			s.mu.Lock()
			ch := s.answers[string(q.ID)]
			s.mu.Unlock()
			if ch != nil {
				if q.Error != nil {
					ch <- q.Error
				} else {
					ch <- q.Result
				}
			}
		case q.ID == nil:
			s.notified(q)
		default:
			if q.Method == "tools/call" {
				s.mu.Lock()
				s.cancels[string(q.ID)] = make(chan string, 1)
				s.mu.Unlock()
			}
			go s.request(q)
		}
	}
}

func (s *testServer) notified(q testRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, q.Method)
	if q.Method == "notifications/cancelled" {
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
			Reason    string
		}
		json.Unmarshal(q.Params, &p)
		if ch := s.cancels[string(p.RequestID)]; ch != nil {
			ch <- p.Reason
		}
	}
}

func (s *testServer) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(os.Stdout, format+"\n", args...)
}

func (s *testServer) result(q testRequest, result string) {
	s.line(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

func (s *testServer) text(q testRequest, text string) {
	b, _ := json.Marshal(text)
	s.result(q, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, b))
}

// ask makes a request of the client and returns its result or error.
func (s *testServer) ask(method, params string) json.RawMessage {
	ch := make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.asked++
	id := fmt.Sprintf(`"ask-%d"`, s.asked)
	s.answers[id] = ch
	s.mu.Unlock()
	s.line(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	return <-ch
}

const testTools = `[{"name":"echo","description":"say it again","inputSchema":{"type":"object","unevaluatedProperties":false,"x-unknown":9007199254740993},"future":{"a":[1.50,"<&>"]}},
{"name":"a__b","inputSchema":{"type":"object"}},
{"name":"progress","inputSchema":{"type":"object"}},{"name":"wait","inputSchema":{"type":"object"}},{"name":"sample","inputSchema":{"type":"object"}},
{"name":"elicit","inputSchema":{"type":"object"}},{"name":"roots","inputSchema":{"type":"object"}},{"name":"big","inputSchema":{"type":"object"}},
{"name":"die","inputSchema":{"type":"object"}},{"name":"flood","inputSchema":{"type":"object"}},{"name":"wrongid","inputSchema":{"type":"object"}},
{"name":"log","inputSchema":{"type":"object"}},{"name":"touch","inputSchema":{"type":"object"}},{"name":"error","inputSchema":{"type":"object"}},
{"name":"events","inputSchema":{"type":"object"}},{"name":"grow","inputSchema":{"type":"object"}}]`

func (s *testServer) request(q testRequest) {
	if s.kind == "hang" {
		return
	}
	if s.kind == "rubbish" {
		s.line("this is not JSON\n{\"jsonrpc\":\n[1,2")
	}
	var p struct {
		Name, URI, Level string
		Meta             struct{ ProgressToken json.RawMessage } `json:"_meta"`
		Arguments        json.RawMessage
	}
	json.Unmarshal(q.Params, &p)
	switch q.Method {
	case "initialize":
		s.result(q, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}},"serverInfo":{"name":"test","version":"1"},"instructions":"be kind to `+s.kind+`"}`)
	case "ping":
		s.result(q, `{}`)
	case "tools/list":
		if s.kind == "unlisted" {
			s.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no list today"}}`, q.ID)
			return
		}
		tools := strings.ReplaceAll(testTools, "\n", "")
		s.mu.Lock()
		if s.asked < 0 {
			tools = strings.TrimSuffix(tools, "]") + `,{"name":"grown","inputSchema":{"type":"object"}}]`
		}
		s.mu.Unlock()
		if path := os.Getenv("TOOLS"); path != "" { // what it has now is in a file
			text, _ := os.ReadFile(path)
			tools = string(text)
		}
		s.result(q, `{"tools":`+tools+`}`)
	case "resources/list":
		s.result(q, fmt.Sprintf(`{"resources":[{"uri":"test://%s/one","name":"one","size":9007199254740993},{"uri":"test://shared","name":"shared"}]}`, s.kind))
	case "resources/templates/list":
		s.result(q, fmt.Sprintf(`{"resourceTemplates":[{"uriTemplate":"test://%s/t/{id}","name":"t"}]}`, s.kind))
	case "resources/read":
		if p.URI == "events:" {
			s.call(q, "events", nil, nil)
			return
		}
		u, _ := json.Marshal(p.URI)
		s.result(q, fmt.Sprintf(`{"contents":[{"uri":%s,"text":"content","odd":1e400}]}`, u))
	case "prompts/list":
		s.result(q, `{"prompts":[{"name":"greet","arguments":[{"name":"who"}],"icon":"x"}]}`)
	case "tools/call":
		s.call(q, p.Name, p.Meta.ProgressToken, p.Arguments)
	default: // prompts/get, completion/complete, logging/setLevel, …
		s.result(q, fmt.Sprintf(`{"method":%q,"got":%s}`, q.Method, q.Params))
	}
}

func (s *testServer) call(q testRequest, tool string, token, args json.RawMessage) {
	switch tool {
	case "progress":
		for i := range 3 {
			s.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"total":9007199254740993,"odd":[]}}`, token, i)
		}
		s.text(q, "done")
	case "wait":
		if token != nil {
			s.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token)
		}
		s.mu.Lock()
		ch := s.cancels[string(q.ID)]
		s.mu.Unlock()
		reason := <-ch
		s.mu.Lock()
		s.events = append(s.events, "cancelled: "+reason)
		s.mu.Unlock()
	case "sample":
		if result := rawjson.Get(args, "result"); result != nil {
			s.result(q, string(result))
			break
		}
		s.result(q, fmt.Sprintf(`{"content":[],"answer":%s}`, s.ask("sampling/createMessage", `{"messages":[],"maxTokens":9007199254740993}`)))
	case "elicit":
		s.result(q, fmt.Sprintf(`{"content":[],"answer":%s}`, s.ask("elicitation/create", `{"message":"who?"}`)))
	case "roots":
		s.result(q, fmt.Sprintf(`{"content":[],"answer":%s}`, s.ask("roots/list", `{}`)))
	case "big":
		var size struct{ Size int }
		json.Unmarshal(args, &size)
		s.text(q, strings.Repeat("x", size.Size))
	case "die":
		os.Exit(3)
	case "flood":
		for i := range 20000 {
			s.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d %s"}}`, i, strings.Repeat("x", 200))
		}
		s.text(q, "flooded")
	case "wrongid":
		stray := q
		stray.ID = json.RawMessage(`"wrong"`)
		s.text(stray, "for nobody")
		s.text(q, "for you")
	case "log":
		if token != nil {
			s.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"n is 9007"}}`, token)
		}
		for _, level := range []string{"debug", "warning"} {
			s.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":{"n":9007199254740993}}}`, level)
		}
		s.line(`{"jsonrpc":"2.0","method":"notifications/unusual","params":{"odd":9007199254740993}}`)
		s.text(q, "logged")
	case "touch":
		s.line(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://%s/one","odd":1}}`, s.kind)
		s.text(q, "touched")
	case "grow":
		s.mu.Lock()
		s.asked = -1000
		s.mu.Unlock()
		s.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.text(q, "grown")
	case "error":
		if strings.Contains(string(args), "another endpoint") {
			s.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"gone","data":{"hutch/reached":true}}}`, q.ID)
			break
		}
		if strings.Contains(string(args), "-32000") {
			s.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"connection closed"}}`, q.ID)
			break
		}
		s.line(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"told <so>","data":{"big":9007199254740993}}}`, q.ID)
	case "events":
		s.mu.Lock()
		events := strings.Join(s.events, "\n")
		s.mu.Unlock()
		s.text(q, events)
	default:
		s.result(q, fmt.Sprintf(`{"content":[{"type":"hologram","x":9007199254740993}],"structuredContent":{"params":%s},"_meta":{"odd":"<&>"},"future":[1.50]}`, q.Params))
	}
}
