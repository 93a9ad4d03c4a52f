package mcpd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

func init() {
	otherServers["tasker"] = func() int { return serveTasks(false) }
	otherServers["newtasker"] = func() int { return serveTasks(true) }
}

// serveTasks is a server that makes tasks of calls, as 2025-11-25 has it, or as the
// extension of 2026-07-28, and has a tool that wants a URL to be opened first.
func serveTasks(newer bool) int {
	in := bufio.NewScanner(os.Stdin)
	for made, opened, asked := 0, 0, 0; in.Scan(); {
		q := in.Bytes()
		id, params := rawjson.Get(q, "id"), rawjson.Get(q, "params")
		task := rawjson.GetString(params, "taskId")
		state := func(status string) string {
			return fmt.Sprintf(`"taskId":%q,"status":%q,"ttl":9007199254740993`, task, status)
		}
		result, fault := "", `{"code":-32601,"message":"no"}`
		switch method := rawjson.GetString(q, "method"); {
		case id == nil:
			continue
		case newer && method == "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"c":1e400}}}}`
		case !newer && method == "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"experimental":{"x":{"n":9007199254740993}},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"t","version":"1"}}`
		case method == "tools/list":
			result = `{"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"ask","inputSchema":{"type":"object"}}]}`
		case method == "tools/call" && !newer && rawjson.GetString(params, "name") == "ask":
			if opened++; opened%3 == 0 {
				result = `{"content":[{"type":"text","text":"opened"}]}`
				break
			}
			fault = fmt.Sprintf(`{"code":-32042,"message":"open it","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"http://x/%d","message":"m"}]}}`, opened)
		case method == "tools/call" && rawjson.GetString(params, "name") == "ask": // and say what it got
			if result = `{"resultType":"complete","content":[],"got":` + string(params) + `}`; rawjson.Get(params, "requestState") == nil {
				result = `{"resultType":"input_required","requestState":"hutch:AAAA","inputRequests":{"u":{"method":"elicitation/create","params":{"mode":"url","url":"http://x/","message":"m"}}}}`
			}
		case method == "tools/call" && !newer && rawjson.Get(params, "task") == nil:
			result = `{"content":[]}`
		case method == "tools/call":
			made++
			task = "task-" + strconv.Itoa(made)
			if result = `{"task":{` + state("working") + `}}`; newer {
				result = `{"resultType":"task",` + state("working") + `}`
			}
		case method == "tasks/get" && newer && task == "task-1":
			result = `{"resultType":"complete",` + state("completed") + `,"result":{"content":[{"type":"text","text":"the secret"}]}}`
		case method == "tasks/get" && newer && task == "task-2":
			result = `{"resultType":"complete",` + state("input_required") + `,"inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`
		case method == "tasks/get" && newer && task == "task-3":
			result = `{"resultType":"complete",` + state("completed") + `,"result":{"content":[]}}`
		case method == "tasks/get" && newer && task == "task-4":
			if asked++; asked == newsTries {
				result = `{"resultType":"complete",` + state("completed") + `,"result":{"content":[]}}`
			}
		case method == "tasks/get":
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks/status\",\"params\":{%s}}\n", state("working"))
			result = `{` + state("working") + `}`
		case method == "tasks/result":
			result = `{"content":[{"type":"text","text":"result of ` + task + `"}]}`
		case method == "tasks/list":
			result = `{"tasks":[{"taskId":"task-1"},{"taskId":"of-nobody"},{"taskId":"task-1"},{"taskId":"task-2","n":9007199254740993},{"taskId":"task-3","n":"` + strings.Repeat("x", maxTaskList) + `"}]}`
		case method == "subscriptions/listen":
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`+"\n", id, rawjson.Get(params, "notifications"))
			continue
		case method == "tasks/cancel" && newer:
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":%q,"status":"cancelled","by":"stealth"}}`+"\n", task)
			result = `{"resultType":"complete","got":` + string(params) + `}`
		case method == "tasks/cancel", method == "tasks/update":
			result = `{"resultType":"complete","got":` + string(params) + `}`
		}
		if result == "" {
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":%s}\n", id, fault)
			continue
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", id, result)
	}
	return 0
}

// Tasks of 2025-11-25 are asked about at the server that made them.
func TestTasks(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("tasker", "one"))
	g := st.dial(t, 2)
	hello := string(g.ok("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`))
	for _, want := range []string{`"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`, `"experimental":{"x":{"n":9007199254740993}}`} {
		if !strings.Contains(hello, want) {
			t.Errorf("initialize: %s, want %s", hello, want)
		}
	}
	g.fails("tasks/get", `{"taskId":"task-1"}`, jsonrpc.CodeParams, "task not found")
	for _, tt := range []struct{ method, params, want string }{
		{"tools/call", `{"name":"tasker__slow","arguments":{},"task":{"ttl":1}}`, `{"task":{"taskId":"task-1","status":"working","ttl":9007199254740993}}`},
		{"tools/call", `{"name":"tasker__slow","arguments":{},"task":{}}`, `"taskId":"task-2"`},
		{"tasks/get", `{"taskId":"task-1"}`, `{"taskId":"task-1","status":"working","ttl":9007199254740993}`},
		{"tasks/result", `{"taskId":"task-1"}`, `"text":"result of task-1"`},
		{"tools/call", `{"name":"tasker__slow","arguments":{},"task":{}}`, `"taskId":"task-3"`},
		{"tasks/list", `{}`, `{"tasks":[{"taskId":"task-1"},{"taskId":"task-2","n":9007199254740993}]}`},
		{"tasks/cancel", `{"taskId":"task-2"}`, `"taskId":"task-2"`},
	} {
		if got := string(g.ok(tt.method, tt.params)); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.params, got, tt.want)
		}
	}
	if n := g.note("notifications/tasks/status"); !strings.Contains(string(n.Params), `"taskId":"task-1"`) {
		t.Errorf("status: %s", n.Params)
	}
	other := st.hello(t, 2, `{}`)
	other.ok("tasks/get", `{"taskId":"task-1"}`) // of the same VM
	if told := other.told("notifications/tasks/status"); len(told) > 0 {
		t.Errorf("another session was told of %s", told[0].Params)
	}
	if row := st.lines(4)[3]; row["server_name"] != "tasker" || row["tool_name"] != "tasker__slow" {
		t.Errorf("row: %v", row)
	}
	if _, err := st.request(t.Context(), Caller{Principal: "somebody"}, wish{"tasks/get", "taskId", "task-1", nil}); err == nil || !strings.Contains(err.Error(), "task not found") {
		t.Errorf("another's task: %v", err)
	}
	// A result is judged as that of its tool, whichever way it comes.
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		if r.On == policy.OnResponse && r.Method == "tools/call" && r.Tool == "slow" && strings.Contains(string(r.Answer), "result of") {
			return policy.Decision{Action: policy.Block, Rule: "results", Reason: "not that"}
		}
		return policy.Decision{Action: policy.Allow}
	})
	g.fails("tasks/result", `{"taskId":"task-1"}`, jsonrpc.CodeInvalid, "blocked by policy: results")
	// A server that there is no more has no tasks.
	if err := st.Reload(t.Context(), testServers("one"), st.Policy()); err != nil {
		t.Fatal(err)
	}
	g.fails("tasks/get", `{"taskId":"task-1"}`, jsonrpc.CodeParams, "task not found")
}

// The tasks of 2026-07-28 are an extension, whose results come with their state.
func TestTasksExtension(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newtasker"))
	g := st.dial(t, 2)
	able := offering(`{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		switch {
		case r.On == policy.OnResponse && r.Method == "tools/call" && strings.Contains(string(r.Answer), "secret") && !strings.Contains(string(r.Answer), "taskId"):
			return policy.Decision{Action: policy.Rewrite, Rewritten: []byte(`{"content":[]}`)}
		case r.On == policy.OnAsk:
			return policy.Decision{Action: policy.Block, Rule: "asks", Reason: "servers do not ask"}
		case r.On == policy.OnResponse && r.Method == "elicitation/create":
			return policy.Decision{Action: policy.Block, Rule: "answers", Reason: "nor are they answered"}
		}
		return policy.Decision{Action: policy.Allow}
	})
	if got := string(g.ok("server/discover", `{`+able+`}`)); !strings.Contains(got, `"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"c":1e400}}`) {
		t.Errorf("discover: %s", got)
	}
	for i := range 3 {
		got := string(g.ok("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`))
		if !strings.Contains(got, fmt.Sprintf(`"resultType":"task","taskId":"task-%d","status":"working","ttl":9007199254740993}`, i+1)) {
			t.Errorf("call: %s", got)
		}
	}
	if got := string(g.ok("tasks/get", `{"taskId":"task-1",`+able+`}`)); !strings.Contains(got, `"status":"completed"`) || !strings.Contains(got, `"result":{"content":[]}`) || strings.Contains(got, "secret") {
		t.Errorf("get: %s", got)
	}
	g.fails("tasks/get", `{"taskId":"task-2",`+able+`}`, jsonrpc.CodeInvalid, "servers do not ask")
	g.fails("tasks/update", `{"taskId":"task-2","inputResponses":{"a":{"action":"accept"}},`+able+`}`, jsonrpc.CodeInvalid, "nor are they answered")
	if got := string(g.ok("tasks/update", `{"taskId":"task-2","inputResponses":{"a":{"role":"user","n":1e400}},`+able+`}`)); !strings.Contains(got, `"a":{"role":"user","n":1e400}`) {
		t.Errorf("update: %s", got)
	}
	g.ok("tasks/cancel", `{"taskId":"task-3",`+able+`}`)
	for _, tt := range []struct {
		method, params string
		code           int
	}{
		{"tasks/get", `{"taskId":"task-1",` + offering(`{}`) + `}`, jsonrpc.CodeCapability},
		{"tasks/get", `{"taskId":"task-9",` + able + `}`, jsonrpc.CodeParams},
		{"tasks/get", `{` + able + `}`, jsonrpc.CodeParams},
		{"tasks/list", `{` + able + `}`, jsonrpc.CodeMethod},
		{"tasks/result", `{"taskId":"task-1",` + able + `}`, jsonrpc.CodeMethod},
		{"tasks/update", `{"taskId":"task-1"}`, jsonrpc.CodeParams},
	} {
		g.fails(tt.method, tt.params, tt.code, "")
	}
	// An older client sees no extension that it cannot know.
	if old := string(st.dial(t, 2).ok("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)); strings.Contains(old, "tasks") || !strings.Contains(old, `"extensions":{"a/b":{"c":1e400}}`) {
		t.Errorf("initialize: %s", old)
	}
}

// The guest and each of those who ask through the tree have tasks of their own.
func TestTaskPrincipals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ server, more, methods string }{
		{"tasker", "", "tasks/get tasks/result tasks/cancel"},
		{"newtasker", "," + offering(`{"sampling":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`), "tasks/get tasks/update tasks/cancel"},
	} {
		t.Run(tt.server, func(t *testing.T) {
			t.Parallel()
			st := newSite(t, nil, testServers(tt.server))
			all := []*guest{st.dial(t, 2), st.dialAs(t, 2, "ann"), st.dialAs(t, 2, "bob")}
			for _, g := range all {
				if tt.more == "" {
					g.ok("initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`)
				}
				g.ok("tools/call", `{"name":"`+tt.server+`__slow","arguments":{},"task":{}`+tt.more+`}`)
			}
			for i := range all {
				id := fmt.Sprintf("task-%d", i+1) // as the server numbers them
				for j, g := range all {
					for method := range strings.FieldsSeq(tt.methods) {
						if params := `{"taskId":"` + id + `"` + tt.more + `}`; i == j {
							g.ok(method, params)
						} else {
							g.fails(method, params, jsonrpc.CodeParams, "task not found")
						}
					}
					if tt.more != "" {
						continue
					}
					if list := string(g.ok("tasks/list", `{}`)); i != j && strings.Contains(list, id) {
						t.Errorf("%d lists the tasks %s", j, list)
					}
				}
			}
		})
	}
}

// A client of one revision has no tasks of a server of the other: it is told so, and
// the server is asked for none.
func TestTaskRevisions(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("tasker", "newtasker"))
	old, g := st.hello(t, 2, `{}`), st.dial(t, 2)
	able := offering(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	old.fails("tools/call", `{"name":"newtasker__slow","arguments":{},"task":{}}`, jsonrpc.CodeInternal, "did not ask for")
	g.fails("tools/call", `{"name":"newtasker__slow","arguments":{},`+offering(`{}`)+`}`, jsonrpc.CodeInternal, "did not ask for")
	if got := string(g.ok("tools/call", `{"name":"tasker__slow","arguments":{},"task":{},`+able+`}`)); !strings.Contains(got, `"content":[]`) {
		t.Errorf("an older server made a task: %s", got)
	}
	old.ok("tools/call", `{"name":"tasker__slow","arguments":{},"task":{}}`)
	g.fails("tasks/get", `{"taskId":"task-1",`+able+`}`, jsonrpc.CodeParams, "another revision")
	g.fails("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`, jsonrpc.CodeInternal, `an id that another task has, or too long: "task-1"`)
	g.ok("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`)
	old.fails("tasks/result", `{"taskId":"task-2"}`, jsonrpc.CodeParams, "another revision")
}

// A client of 2026-07-28 is told of its tasks by a listen: of what it could ask for.
func TestTaskNews(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newtasker"))
	able := offering(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	g, ann := st.dial(t, 2), st.dialAs(t, 2, "ann")
	for range 2 {
		g.ok("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`)
	}
	ann.ok("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`) // task-3
	listen := func(g *guest, ids, agreed string) {
		t.Helper()
		g.send(g.request("subscriptions/listen", `{"notifications":{"taskIds":`+ids+`},`+able+`}`))
		if got := g.note("notifications/subscriptions/acknowledged"); !strings.HasSuffix(string(got.Params), `"notifications":`+agreed+`}`) {
			t.Errorf("acknowledged: %s", got.Params)
		}
	}
	listen(g, `["task-1","task-3","task-9",7,"task-2"]`, `{"taskIds":["task-1","task-2"]}`)
	listen(ann, `["task-3"]`, `{"taskIds":["task-3"]}`)
	ann.ok("tasks/cancel", `{"taskId":"task-3",`+able+`}`)
	if got := string(ann.note("notifications/tasks").Params); !strings.Contains(got, `"taskId":"task-3","status":"completed"`) || !strings.Contains(got, `"result":{"content":[]}`) || strings.Contains(got, "stealth") {
		t.Errorf("told: %s", got)
	}
	// What the policy blocks of its state is not told; of the next news it is.
	st.decideBy(func(_ context.Context, r *policy.Event) policy.Decision {
		if r.On == policy.OnResponse && strings.Contains(string(r.Answer), "the secret") {
			return policy.Decision{Action: policy.Block, Rule: "answers", Reason: "that stays here"}
		}
		return policy.Decision{Action: policy.Allow}
	})
	g.ok("tasks/cancel", `{"taskId":"task-1",`+able+`}`)
	await(t, "nothing is blocked", func() bool { return strings.Contains(fmt.Sprint(st.lines(1)), "that stays here") })
	st.decideBy(func(context.Context, *policy.Event) policy.Decision { return policy.Decision{Action: policy.Allow} })
	g.ok("tasks/cancel", `{"taskId":"task-1",`+able+`}`)
	if got := string(g.note("notifications/tasks").Params); !strings.Contains(got, `"taskId":"task-1"`) {
		t.Errorf("told: %s", got)
	}
	if told := append(g.told("notifications/tasks"), ann.told("notifications/tasks")...); len(told) > 0 {
		t.Errorf("told as well: %s", told[0].Params)
	}
	g.fails("subscriptions/listen", `{"notifications":{"taskIds":[]},`+offering(`{}`)+`}`, jsonrpc.CodeCapability, "tasks")
	g.conn.Close()
	ann.conn.Close()
	await(t, "a session goes on", func() bool { return st.Sessions() == 0 })
	if n := len(st.subs.topics); n != 0 {
		t.Errorf("%d subscriptions after the end", n)
	}
}

// The last news of a task is told though the server fails at first to say what it is.
func TestTaskNewsAgain(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("newtasker"))
	able := offering(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	g := st.dial(t, 2)
	for range 4 {
		g.ok("tools/call", `{"name":"newtasker__slow","arguments":{},`+able+`}`)
	}
	g.send(g.request("subscriptions/listen", `{"notifications":{"taskIds":["task-4"]},`+able+`}`))
	g.note("notifications/subscriptions/acknowledged")
	g.ok("tasks/cancel", `{"taskId":"task-4",`+able+`}`)
	if got := string(g.note("notifications/tasks").Params); !strings.Contains(got, `"taskId":"task-4","status":"completed"`) {
		t.Errorf("told: %s", got)
	}
}

func TestTaskTable(t *testing.T) {
	ts := tasks{byID: make(map[string]*task)}
	if !ts.add(&task{id: "a", server: "one"}) || !ts.add(&task{id: "a", server: "one"}) {
		t.Error("a server's own task is refused")
	}
	if ts.add(&task{id: "a", server: "two"}) || ts.add(&task{id: "a", server: "one", principal: "ann"}) || ts.find("a").server != "one" {
		t.Errorf("a is of %+v", ts.find("a"))
	}
	for i := range maxTasks {
		ts.add(&task{id: strconv.Itoa(i), server: "two"})
	}
	if len(ts.byID) != maxTasks || len(ts.order) != maxTasks || ts.find("a") != nil || ts.find("0") == nil {
		t.Errorf("%d tasks", len(ts.byID))
	}
	if ts.keep(map[string]wire.Server{"two": {}}); len(ts.byID) != 0 || len(ts.order) != 0 {
		t.Errorf("%d tasks of no server", len(ts.byID))
	}
}
