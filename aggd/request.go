package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A request is one line of the host.
type request struct {
	id     json.RawMessage
	method string
	params json.RawMessage
	set    *set // the servers when it came
}

// methods answer the host's requests: each returns the fields of the answer.
var methods map[string]func(*aggregator, context.Context, request) ([]byte, error)

func init() { // they mention the table
	methods = map[string]func(*aggregator, context.Context, request) ([]byte, error){
		wire.ListTools:     lister(tools, "tools"),
		wire.ListResources: lister(resources, "resources"),
		wire.ListTemplates: lister(templates, "templates"),
		wire.ListPrompts:   lister(prompts, "prompts"),
		wire.CallTool:      (*aggregator).callTool,
		wire.GetPrompt:     (*aggregator).getPrompt,
		wire.ReadResource:  (*aggregator).readResource,
		wire.RPC:           (*aggregator).rpc,
		wire.Notify:        (*aggregator).notify,
	}
}

// quick are the methods that never wait; they take effect in the order they come.
var quick = map[string]func(*aggregator, request) ([]byte, error){
	wire.ListServers: (*aggregator).listServers,
	wire.Refresh:     (*aggregator).refresh,
	wire.Client:      (*aggregator).declare,
	wire.Cancel:      (*aggregator).cancel,
	wire.Reply:       (*aggregator).reply,
}

var ok = []byte(`"ok":true`)

// request starts the answering of one line. For a shutdown it returns the last
// line to write.
func (a *aggregator) request(line []byte) (stop []byte) {
	if !json.Valid(line) {
		skim := &rawjson.Skim{}
		skim.Write(line)
		a.refuse(skim.ID(), "not JSON")
		return nil
	}
	q := request{id: rawjson.Get(line, "id"), method: text(line, "method"), params: rawjson.Get(line, "params"), set: a.current()}
	if q.id == nil || string(q.id) == "null" {
		a.refuse(nil, "no id")
		return nil
	}
	if q.method == wire.Shutdown {
		return encodeAnswer(q.id, ok, nil)
	}
	if do := quick[q.method]; do != nil {
		fields, err := do(a, q)
		a.answer(q.id, fields, err)
		return nil
	}
	do := methods[q.method]
	if do == nil {
		a.answer(q.id, nil, fmt.Errorf("unknown method: %.60q", q.method))
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := a.enter(q.id, cancel); err != nil {
		a.answer(q.id, nil, err)
		return nil
	}
	a.requests.Add(1)
	a.start(func() {
		defer a.requests.Done()
		fields, err := do(a, ctx, q)
		a.leave(q.id)
		cancel(nil)
		a.answer(q.id, fields, err)
	})
	return nil
}

// maxIdle is the most goroutines that wait for a request to answer: a new one
// would have to grow its stack first, which takes longer than the answering.
const maxIdle = 64

// start runs answer on a goroutine that waits for one, or on a new one.
func (a *aggregator) start(answer func()) {
	select {
	case a.idle <- answer:
		return
	default:
	}
	a.workers.Go(func() {
		for {
			answer()
			if a.waiting.Add(1) > maxIdle {
				a.waiting.Add(-1)
				return
			}
			next, more := <-a.idle
			a.waiting.Add(-1)
			if !more {
				return
			}
			answer = next
		}
	})
}

func (a *aggregator) enter(id json.RawMessage, cancel context.CancelCauseFunc) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inFlight[string(id)] != nil {
		return fmt.Errorf("a request with the id %.40s is under way", id)
	}
	a.inFlight[string(id)] = cancel
	return nil
}

func (a *aggregator) leave(id json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.inFlight, string(id))
}

// callTool answers call_tool.
func (a *aggregator) callTool(ctx context.Context, q request) ([]byte, error) {
	name := text(q.params, "name")
	server, own, err := splitName(name)
	if err != nil {
		return nil, err
	}
	return a.forward(ctx, q, server, "tools/call", rawjson.Set(q.params, rawjson.Quote(own), "name"))
}

// getPrompt answers get_prompt.
func (a *aggregator) getPrompt(ctx context.Context, q request) ([]byte, error) {
	server, own, err := splitName(text(q.params, "name"))
	if err != nil {
		return nil, err
	}
	return a.forward(ctx, q, server, "prompts/get", rawjson.Set(q.params, rawjson.Quote(own), "name"))
}

// readResource answers read_resource.
func (a *aggregator) readResource(ctx context.Context, q request) ([]byte, error) {
	server, own, err := splitURI(text(q.params, "uri"))
	if err != nil {
		return nil, err
	}
	return a.forward(ctx, q, server, "resources/read", rawjson.Set(q.params, rawjson.Quote(own), "uri"))
}

// forward makes one of the reference's requests on the connection without
// capabilities.
func (a *aggregator) forward(ctx context.Context, q request, server, method string, params json.RawMessage) ([]byte, error) {
	o := q.do(ctx, "", server, method, params)
	switch {
	case o.err != nil:
		return nil, o.err
	case o.rpcError != nil:
		return nil, rpcError(o.rpcError)
	}
	return append([]byte(`"result":`), o.result...), nil
}

// do makes a request of a server.
func (q request) do(ctx context.Context, client, server, method string, params json.RawMessage) outcome {
	s, err := q.set.find(server)
	if err != nil {
		return outcome{err: err}
	}
	u, err := s.upstream(client)
	if err != nil {
		return outcome{err: err}
	}
	switch method {
	case "":
		return outcome{err: errors.New("no method")}
	case "initialize":
		return outcome{err: errors.New("the aggregator initializes servers itself")}
	case "tools/call":
		if err := s.admit(ctx, u, text(params, "name")); err != nil {
			return outcome{err: err}
		}
	}
	return u.call(ctx, q.id, client, method, params)
}

// refresh answers refresh.
func (a *aggregator) refresh(q request) ([]byte, error) {
	servers := rawjson.Get(q.params, "servers")
	if len(servers) == 0 || servers[0] != '[' {
		return nil, errors.New("refresh needs an array of servers")
	}
	a.define(decodeServers(servers))
	return ok, nil
}

// rpc answers rpc: any request of MCP, passed through.
func (a *aggregator) rpc(ctx context.Context, q request) ([]byte, error) {
	o := q.do(ctx, text(q.params, "client"), text(q.params, "server"), text(q.params, "method"), rawjson.Get(q.params, "params"))
	switch {
	case o.err != nil:
		return nil, o.err
	case o.rpcError != nil:
		return fmt.Appendf(nil, `"response":{"error":%s}`, o.rpcError), nil
	}
	fields := make([]byte, 0, len(o.result)+32)
	fields = append(append(fields, `"response":{"result":`...), o.result...)
	return append(fields, '}'), nil
}

// notify answers notify.
func (a *aggregator) notify(ctx context.Context, q request) ([]byte, error) {
	s, err := q.set.find(text(q.params, "server"))
	if err != nil {
		return nil, err
	}
	u, err := s.upstream(text(q.params, "client"))
	if err != nil {
		return nil, err
	}
	method := text(q.params, "method")
	if method == "" || method == "notifications/initialized" || method == "notifications/cancelled" {
		return nil, fmt.Errorf("no notification to pass on: %.60q", method)
	}
	ctx, cancel := context.WithTimeout(ctx, u.def.connectTimeout())
	defer cancel()
	return ok, u.notify(ctx, method, rawjson.Get(q.params, "params"))
}

// declare answers client.
func (a *aggregator) declare(q request) ([]byte, error) {
	capabilities := rawjson.Get(q.params, "capabilities")
	key, err := wire.ClientKey(capabilities)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if key != "" && a.clients[key] == nil {
		if len(a.clients) >= wire.MaxClients {
			return nil, fmt.Errorf("more than %d sets of client capabilities", wire.MaxClients)
		}
		a.clients[key] = capabilities
	}
	return fmt.Appendf(nil, `"client":%q`, key), nil
}

// cancel answers cancel: the request that it names fails, and its server is told.
func (a *aggregator) cancel(q request) ([]byte, error) {
	id := rawjson.Get(q.params, "id")
	a.mu.Lock()
	cancel := a.inFlight[string(id)]
	a.mu.Unlock()
	if cancel != nil {
		reason := text(q.params, "reason")
		if reason == "" {
			reason = "cancelled"
		}
		cancel(errors.New(reason))
	}
	return ok, nil
}

// reply answers reply: it carries the host's answer to a server's request.
func (a *aggregator) reply(q request) ([]byte, error) {
	var p wire.ReplyParams
	if err := json.Unmarshal(q.params, &p); err != nil || p.Result == nil && p.Error == nil {
		return nil, errors.New("reply needs a rid, and a result or an error")
	}
	a.mu.Lock()
	to, known := a.asked[p.RID]
	delete(a.asked, p.RID)
	a.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("nobody waits for an answer to %d", p.RID)
	}
	to.c.reply(to.id, p.Result, p.Error)
	return ok, nil
}
