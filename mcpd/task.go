package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// maxTasks is how many tasks of a VM's calls are known at once; the oldest are
// forgotten for new ones.
const maxTasks = 4096

// taskExtension is the capability of clients and servers of 2026-07-28 that have
// tasks.
const taskExtension = "io.modelcontextprotocol/tasks"

// A task is one that a server has made of a call of a tool. It outlives the session
// of that, and keeps nothing of it in memory.
type task struct {
	id        string
	server    string
	newer     bool   // as 2026-07-28 has it
	key       string // of the connection that it was made on
	principal string // whose it is; "": the guest's
	session   string // the id of its session
	tool, own string // that was called
}

// tasks are those of a VM, by their ids.
type tasks struct {
	mu    sync.Mutex // guards what follows
	byID  map[string]*task
	order []string // the oldest first
}

// add notes a task, unless its id is that of another server's or principal's, so
// that none can answer for another.
func (ts *tasks) add(t *task) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if was := ts.byID[t.id]; was != nil {
		mine := was.server == t.server && was.principal == t.principal
		if mine {
			ts.byID[t.id] = t
		}
		return mine
	}
	for len(ts.order) >= maxTasks {
		delete(ts.byID, ts.order[0])
		ts.order = ts.order[1:]
	}
	ts.byID[t.id] = t
	ts.order = append(ts.order, t.id)
	return true
}

func (ts *tasks) find(id string) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id]
}

// keep forgets the tasks of servers that there are no more.
func (ts *tasks) keep(servers map[string]wire.Server) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	order := ts.order[:0]
	for _, id := range ts.order {
		if s, ok := servers[ts.byID[id].server]; ok && s.Enabled {
			order = append(order, id)
		} else {
			delete(ts.byID, id)
		}
	}
	ts.order = order
}

// maxTaskID is how long the id of a task may be.
const maxTaskID = 1 << 10

// noteTask notes the task that the call was made one of, if it was.
func (c *call) noteTask(result json.RawMessage) *Error {
	id := ""
	switch {
	case c.message.Method != "tools/call":
		return nil
	case c.stateless():
		if rawjson.GetString(result, resultNames[rType]) == "task" {
			id = rawjson.GetString(result, "taskId")
		}
	case c.message.params.get(pTask) != nil:
		id = rawjson.GetString(result, "task", "taskId")
	}
	if id == "" {
		return nil
	}
	t := &task{
		id: id, server: c.server, newer: c.stateless(), key: c.client.key, principal: c.who, session: c.session.id, tool: c.tool, own: c.own,
	}
	if len(id) > maxTaskID || !c.session.e.tasks.add(t) {
		return failure(jsonrpc.CodeInternal, "%s made a task, but by an id that another task has, or too long: %.100q", c.server, id)
	}
	return nil
}

// takesTasks reports whether a server may make a task of the call without being asked
// for one.
func (c *call) takesTasks() bool {
	return c.stateless() && c.message.Method == "tools/call" && c.needsTasks() == nil
}

// needsTasks is the error for a client of 2026-07-28 that asks about tasks and does not
// have them.
func (c *call) needsTasks() *Error {
	if !c.stateless() || rawjson.Get(c.client.capabilities, "extensions", taskExtension) != nil {
		return nil
	}
	err := failure(jsonrpc.CodeCapability, "missing required client capability: extensions %s", taskExtension)
	err.Data = json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + taskExtension + `":{}}}}`)
	return err
}

// planTask plans a request about a task: it is for the server that made it, on the
// connection where it did.
func planTask(_ context.Context, c *call) (step, *Error) {
	if err := c.needsTasks(); err != nil {
		return nil, err
	}
	id, ok := c.message.params.str(pTaskID)
	if !ok {
		return nil, missing("taskId")
	}
	t := c.session.e.tasks.find(id)
	if t == nil || t.principal != c.who || !c.goesTo(t.server, t.own) {
		c.server, c.own, c.missing = "", "", false
		return nil, failure(jsonrpc.CodeParams, "task not found: %.100s", id)
	}
	if t.newer != c.stateless() {
		return nil, failure(jsonrpc.CodeParams, "task %.100s was made for a client of another revision of MCP, and is one in that only", id)
	}
	c.tool, c.task = t.tool, t
	return func(ctx context.Context) (json.RawMessage, *Error) {
		return c.send(ctx, t.server, c.message.Method, c.message.params.raw)
	}, nil
}

// connection is the key of the connection that the call's requests go by.
func (c *call) connection() string {
	if c.task != nil {
		return c.task.key
	}
	return c.client.key
}

// judgeTask decides what the client may have of a task's state: what it asks, and
// the result in it, as if that were its call's.
func (c *call) judgeTask(ctx context.Context, state json.RawMessage) (json.RawMessage, *Error) {
	state, err := c.handOver(ctx, c.server, state)
	if err != nil {
		return nil, err
	}
	result := json.RawMessage(rawjson.Get(state, "result"))
	if result == nil {
		return state, nil
	}
	judged, err := c.judgeAs("tools/call", result, nil)
	if err != nil || bytes.Equal(judged, result) {
		return state, err
	}
	return rawjson.Set(state, judged, "result"), nil
}

// What a list of tasks has at most.
const (
	maxTaskPages = 16      // of one server
	maxTaskList  = 4 << 20 // bytes, of which each server has an equal part
)

// planTasks plans a tasks/list: what is the caller's of all servers, on one page.
func planTasks(_ context.Context, c *call) (step, *Error) {
	if cursor, ok := c.message.params.str(pCursor); ok && cursor != "" {
		return nil, failure(jsonrpc.CodeParams, "invalid cursor: lists have one page")
	}
	return func(ctx context.Context) (json.RawMessage, *Error) {
		aggregator, err := c.session.e.child()
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		all, err := aggregator.Servers(ctx)
		if err != nil {
			return nil, c.failed(ctx, err)
		}
		all = slices.DeleteFunc(all, func(s wire.Status) bool {
			return !s.Connected || rawjson.Get(s.Capabilities, "tasks", "list") == nil
		})
		b := []byte(`{"tasks":[`)
		for _, s := range all {
			b = c.appendTasks(ctx, b, s.Name, len(b)+maxTaskList/len(all))
		}
		return append(bytes.TrimSuffix(b, []byte(",")), "]}"...), nil
	}, nil
}

// appendTasks appends the caller's tasks at a server, each once, to most bytes.
func (c *call) appendTasks(ctx context.Context, b []byte, server string, most int) []byte {
	params := json.RawMessage(`{}`)
	had := make(map[*task]bool)
	for range maxTaskPages {
		result, err := c.send(ctx, server, "tasks/list", params)
		if err != nil {
			return b
		}
		for _, raw := range rawjson.Elements(rawjson.Get(result, "tasks")) {
			t := c.session.e.tasks.find(rawjson.GetString(raw, "taskId"))
			if t == nil || t.newer || t.server != server || t.principal != c.who || had[t] || len(b)+len(raw) > most {
				continue
			}
			had[t] = true
			b = append(append(b, raw...), ',')
		}
		cursor := rawjson.Get(result, "nextCursor")
		if rawjson.String(cursor) == "" {
			return b
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
	return b
}

// taskChanged passes the news of a task on to the session that it was made for.
func (e *Endpoint) taskChanged(n wire.Notification) {
	t := e.tasks.find(rawjson.GetString(n.Params, "taskId"))
	if t == nil || t.server != n.Server || t.key != n.Client {
		return
	}
	for _, s := range e.each(func(s *session) bool { return s.id == t.session }) {
		if e.mayTell(func() *policy.Event { return s.toldBy(n) }, n.Params) {
			s.notify(n.Method, n.Params)
		}
	}
}

// taskNews has the listens for a task of 2026-07-28 tell of it.
func (e *Endpoint) taskNews(n wire.Notification) {
	t := e.tasks.find(rawjson.GetString(n.Params, "taskId"))
	if t == nil || t.server != n.Server {
		return
	}
	for _, s := range e.subs.about(t.key, t.server, wire.TaskScheme+t.id) {
		if l, ok := s.subscriber.(*listen); ok {
			l.taskChanged(t.id, newsTries)
		}
	}
}
