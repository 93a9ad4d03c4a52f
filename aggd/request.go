package aggd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// A request is one line of the host.
type request struct {
	jsonrpc.Message
	set *set // the servers when it came
}

// methods answer the host's requests: each returns the fields of the answer.
var methods map[string]func(*aggregator, context.Context, request) ([]byte, error)

func init() { // they mention the table
	methods = map[string]func(*aggregator, context.Context, request) ([]byte, error){
		wire.ListTools:     lister(wire.Tools),
		wire.ListResources: lister(wire.Resources),
		wire.ListTemplates: lister(wire.Templates),
		wire.ListPrompts:   lister(wire.Prompts),
		wire.CallTool:      named("tools/call", "name", jsonrpc.SplitName),
		wire.GetPrompt:     named("prompts/get", "name", jsonrpc.SplitName),
		wire.ReadResource:  named("resources/read", "uri", jsonrpc.SplitURI),
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
	wire.SetLimits:   (*aggregator).relimit,
}

var ok = []byte(`"ok":true`)

// request starts the answering of one line. For a shutdown it returns the last
// line to write.
func (a *aggregator) request(line []byte) (stop []byte) {
	m, err := jsonrpc.Parse(line)
	switch {
	case err != nil && !errors.Is(err, rawjson.ErrType):
		a.refuse(m.ID, "not JSON")
		return nil
	case !m.HasID():
		a.refuse(nil, "no id")
		return nil
	case m.Method == wire.Shutdown:
		return encodeAnswer(m.ID, ok, nil)
	}
	q := request{m, a.set.Load()}
	if do := quick[q.Method]; do != nil {
		fields, err := do(a, q)
		a.answer(q.ID, fields, err)
		return nil
	}
	do := methods[q.Method]
	if do == nil {
		a.answer(q.ID, nil, fmt.Errorf("unknown method: %.60q", q.Method))
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if err := a.enter(q.ID, cancel); err != nil {
		a.answer(q.ID, nil, err)
		return nil
	}
	a.requests.Add(1)
	a.start(func() {
		defer a.requests.Done()
		fields, err := do(a, ctx, q)
		a.leave(q.ID)
		cancel(nil)
		a.answer(q.ID, fields, err)
	})
	return nil
}

// maxIdle is the most goroutines that wait for a request to answer: a new one
// would have to grow its stack first, by which BenchmarkHop of package child loses
// 12 % with 8 calls at once, and 18 % with 32.
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

// named answers one of the reference's requests, on the connection without
// capabilities: it is for the server that the guest's name in member begins with.
func named(method, member string, split func(string) (server, own string, ok bool)) func(*aggregator, context.Context, request) ([]byte, error) {
	return func(_ *aggregator, ctx context.Context, q request) ([]byte, error) {
		name := text(q.Params, member)
		server, own, ok := split(name)
		if !ok {
			return nil, fmt.Errorf("%s without a server: %s", member, name)
		}
		return q.forward(ctx, address{server: server, method: method, params: rawjson.Set(q.Params, rawjson.Quote(own), member)})
	}
}

// rpc answers rpc: any request of MCP, passed through.
func (a *aggregator) rpc(ctx context.Context, q request) ([]byte, error) {
	return q.forward(ctx, q.address())
}

// An address is what the params of rpc and notify say.
type address struct {
	client, server, method string
	params                 json.RawMessage
}

func (q request) address() (to address) {
	rawjson.Walk(q.Params, func(key []byte, start, end int) {
		value := q.Params[start:end]
		switch string(key) {
		case "client":
			to.client = rawjson.String(value)
		case "server":
			to.server = rawjson.String(value)
		case "method":
			to.method = rawjson.String(value)
		case "params":
			to.params = value
		}
	})
	return to
}

// forward makes a request of a server.
func (q request) forward(ctx context.Context, to address) ([]byte, error) {
	s, u, err := q.set.connection(to)
	switch {
	case err != nil:
	case to.method == "":
		err = errors.New("no method")
	case to.method == "initialize":
		err = errors.New("the aggregator initializes servers itself")
	case to.method == "tools/call":
		err = s.admit(to.params)
	}
	if err != nil {
		return nil, err
	}
	o := u.call(ctx, q.ID, to.client, to.method, to.params)
	if err := o.failure(); err != nil {
		return nil, &unanswered{err, o.fate()}
	}
	fields := make([]byte, 0, len(o.result)+64)
	if o.stateless {
		fields = append(fields, `"stateless":true,`...)
	}
	return append(append(fields, `"result":`...), o.result...), nil
}

// unanswered is why a request has no result, and what is known of its fate.
type unanswered struct {
	error
	fate wire.Fate
}

func (u *unanswered) Unwrap() error { return u.error }

// connection returns the server that an address names, and its connection for
// the client.
func (s *set) connection(to address) (*server, *upstream, error) {
	found, err := s.find(to.server)
	if err != nil {
		return nil, nil, err
	}
	u, err := found.upstream(to.client)
	return found, u, err
}

// refresh answers refresh.
func (a *aggregator) refresh(q request) ([]byte, error) {
	servers := rawjson.Get(q.Params, "servers")
	if len(servers) == 0 || servers[0] != '[' {
		return nil, errors.New("refresh needs an array of servers")
	}
	if err := a.define(decodeServers(servers)); err != nil {
		return nil, fmt.Errorf("refresh: %w", err)
	}
	return ok, nil
}

// relimit answers limits.
func (a *aggregator) relimit(q request) ([]byte, error) {
	var l wire.Limits
	if err := json.Unmarshal(q.Params, &l); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	a.setLimits(l)
	return ok, nil
}

// notify answers notify.
func (a *aggregator) notify(ctx context.Context, q request) ([]byte, error) {
	to := q.address()
	_, u, err := q.set.connection(to)
	if err != nil {
		return nil, err
	}
	if to.method == "" || to.method == "notifications/initialized" || to.method == "notifications/cancelled" {
		return nil, fmt.Errorf("no notification to pass on: %.60q", to.method)
	}
	ctx, cancel := context.WithTimeout(ctx, u.def.connectTimeout())
	defer cancel()
	return ok, u.notify(ctx, to.method, to.params)
}

// declare answers client.
func (a *aggregator) declare(q request) ([]byte, error) {
	p := wire.ClientParams{
		Capabilities: rawjson.Get(q.Params, "capabilities"), Stateless: string(rawjson.Get(q.Params, "stateless")) == "true",
	}
	key, err := p.Key()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.clients[key]; key != "" && !known {
		if len(a.clients) >= wire.MaxClients {
			return nil, fmt.Errorf("more than %d sets of client capabilities", wire.MaxClients)
		}
		a.clients[key] = p
	}
	return fmt.Appendf(nil, `"client":%q`, key), nil
}

// cancel answers cancel: the request that it names fails, and its server is told.
func (a *aggregator) cancel(q request) ([]byte, error) {
	id := rawjson.Get(q.Params, "id")
	a.mu.Lock()
	cancel := a.inFlight[string(id)]
	a.mu.Unlock()
	if cancel != nil {
		reason := text(q.Params, "reason")
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
	if err := json.Unmarshal(q.Params, &p); err != nil || p.Result == nil && p.Error == nil {
		return nil, errors.New("reply needs a rid, and a result or an error")
	}
	a.mu.Lock()
	to, known := a.asked[p.RID]
	delete(a.asked, p.RID)
	a.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("nobody waits for an answer to %d", p.RID)
	}
	to.reply(p.Result, p.Error)
	return ok, nil
}
