package mcpd

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/frame"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
)

// decideBy has the site's decisions made by d.
func (st *site) decideBy(d decider) {
	r := *st.rules.Load()
	r.decide, r.judges = d, true
	st.rules.Store(&r)
}

// A person decides calls, each when it is told to.
type person struct {
	asked  chan *policy.Event
	answer chan policy.Decision
	gone   chan struct{} // gets one for each decision that nobody waits for any more
}

func newPerson() *person {
	return &person{make(chan *policy.Event), make(chan policy.Decision), make(chan struct{}, 1)}
}

func (p *person) decide(ctx context.Context, r *policy.Event) policy.Decision {
	if r.Method != "tools/call" || r.On != policy.OnRequest {
		return policy.Decision{Action: policy.Allow}
	}
	select {
	case p.asked <- r:
	case <-ctx.Done():
	}
	select {
	case d := <-p.answer:
		return d
	case <-ctx.Done():
		p.gone <- struct{}{}
		return policy.Decision{Action: policy.Block, Rule: "nobody", Reason: "nobody answers"}
	}
}

// killed returns the calls that the next service finds if this one is killed now.
func (st *site) killed() []map[string]any {
	st.t.Helper()
	if err := st.db.Flush(context.Background()); err != nil {
		st.t.Fatal(err)
	}
	b, err := os.ReadFile(st.path)
	if err != nil {
		st.t.Fatal(err)
	}
	next := &site{t: st.t, path: filepath.Join(st.t.TempDir(), "session.db")}
	if err := os.WriteFile(next.path, b, 0o600); err != nil {
		st.t.Fatal(err)
	}
	if next.db, err = ledger.Open(next.path, ledger.Options{}); err != nil {
		st.t.Fatal(err)
	}
	defer next.db.Close()
	return next.lines(1)
}

const readFile = `{"name":"file_read","arguments":{"path":"f"}}`

// A call that waits for its decision is in the ledger, and its clock stands.
func TestDecisionWaits(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	st := newSite(t, func(cfg *Config) { cfg.CallTimeout = limit }, nil)
	os.WriteFile(filepath.Join(st.work, "f"), []byte("hello"), 0o644)
	someone := newPerson()
	st.decideBy(someone.decide)
	g := st.dial(t, 1)
	began := time.Now()
	answer := g.send(g.request("tools/call", readFile))
	r := <-someone.asked
	asked := time.Now()
	if r.VM != "dev" || r.Process != "agent" || r.Server != "file" || r.Tool != "file_read" || string(r.Args) != `{"path":"f"}` || !r.Known {
		t.Errorf("asked about %+v", r)
	}
	if n := st.Count(); n.Begun != 1 || n.Allowed+n.Denied+n.Failed != 0 {
		t.Errorf("count %+v", n)
	}
	if r := st.killed()[0]; r["decision"] != "pending" || r["outcome"] != "interrupted" || r["tool_name"] != "file_read" || r["policy_action"] != nil || r["duration_ms"] != nil {
		t.Errorf("after a crash: %v", r)
	}
	await(t, "time stands still", func() bool { return time.Since(asked) > limit+limit/10 })
	waited := time.Since(asked)
	someone.answer <- policy.Decision{Action: policy.Allow, Rule: "asks", Reason: "fine by me"}
	if m := g.wait(answer); m.Error != nil || !strings.Contains(string(m.Result), "hello") {
		t.Errorf("answer %s %+v", m.Result, m.Error)
	}
	row := st.lines(1)[0]
	if row["decision"] != "allowed" || row["policy_action"] != "allow" || row["policy_rule"] != "asks" || row["policy_reason"] != "fine by me" || row["outcome"] != "ok" {
		t.Errorf("record: %v", row)
	}
	if took := time.Duration(row["duration_ms"].(float64) * float64(time.Millisecond)); took > time.Since(began)-waited {
		t.Errorf("took %v, of which %v were waited", took, waited)
	}
	answer = g.send(g.request("tools/call", readFile))
	<-someone.asked
	someone.answer <- policy.Decision{Action: policy.Block, Rule: "asks", Reason: "not today"}
	if m := g.wait(answer); m.Error == nil || m.Error.Message != "MCP request blocked by policy: asks: not today" {
		t.Errorf("answer %s %+v", m.Result, m.Error)
	}
	if r := st.lines(2)[1]; r["decision"] != "denied" || r["policy_action"] != "block" {
		t.Errorf("record: %v", r)
	}
}

// A client that goes, or wants no answer any more, takes its waiting decision
// with it, and nothing is done.
func TestDecisionCancelled(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	someone := newPerson()
	st.decideBy(someone.decide)
	const write = `{"name":"file_write","arguments":{"path":"f","content":"x"}}`
	g := st.dial(t, 1)
	answer := g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":` + write + `}`)
	<-someone.asked
	g.notify("notifications/cancelled", `{"requestId":"x","reason":"bored"}`)
	<-someone.gone
	lost := g.send(g.request("tools/call", write))
	<-someone.asked
	g.conn.Close()
	<-someone.gone
	st.lines(2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := st.Call(ctx, Caller{Process: "hutch"}, "file_write", json.RawMessage(`{"path":"f","content":"x"}`))
		ended <- err
	}()
	<-someone.asked
	cancel()
	<-someone.gone
	if err := <-ended; err != context.Canceled {
		t.Errorf("from the tree: %v", err)
	}
	rows := st.lines(3)
	for i, want := range []string{"cancelled by the client: bored", "connection lost", "the caller gave up"} {
		if r := rows[i]; r["decision"] != "error" || r["error_message"] != want || r["policy_action"] != nil || r["outcome"] != "error" {
			t.Errorf("record %d: %v, want %s", i, r, want)
		}
	}
	if len(answer)+len(lost) > 0 {
		t.Error("a cancelled request was answered")
	}
	if _, err := os.Stat(filepath.Join(st.work, "f")); err == nil {
		t.Error("what was cancelled was done")
	}
	if st.saw("nobody") || st.Count().Denied != 0 {
		t.Error("what was cancelled was told of as denied")
	}
}

// noSecrets blocks what has "secret" in it.
func noSecrets(_ context.Context, r *policy.Event) policy.Decision {
	text := r.Answer
	if text == nil && r.On == policy.OnAsk {
		text = r.Args
	}
	if bytes.Contains(text, []byte("secret")) {
		return policy.Decision{Action: policy.Block, Rule: "secrets", Reason: "it has a secret"}
	}
	return policy.Decision{Action: policy.Allow, Rule: "default"}
}

func TestResultsJudged(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	os.WriteFile(filepath.Join(st.work, "f"), []byte("the secret"), 0o644)
	st.decideBy(noSecrets)
	g := st.hello(t, 1, `{}`)
	const text = "MCP result blocked by policy: secrets: it has a secret"
	g.ok("tools/call", `{"name":"one__echo","arguments":{}}`)
	g.fails("tools/call", `{"name":"one__echo","arguments":{"a":"secret"}}`, jsonrpc.CodeInvalid, text)
	g.fails("tools/call", readFile, jsonrpc.CodeInvalid, text)
	g.fails("resources/read", `{"uri":"capsem://one/test://one/secret"}`, jsonrpc.CodeInvalid, text)
	st.decideBy(func(ctx context.Context, r *policy.Event) policy.Decision {
		r.Answer = bytes.ReplaceAll(r.Answer, []byte("told <so>"), []byte("secret")) // a server's error
		return noSecrets(ctx, r)
	})
	g.fails("tools/call", `{"name":"one__error"}`, jsonrpc.CodeInvalid, text)
	for i, r := range st.lines(6)[1:] {
		if i == 0 {
			if r["decision"] != "allowed" || r["response_preview"] == nil {
				t.Errorf("record: %v", r)
			}
			continue
		}
		if r["decision"] != "denied" || r["policy_action"] != "block" || r["policy_rule"] != "secrets" || r["response_preview"] != nil || r["outcome"] != "error" {
			t.Errorf("record: %v", r)
		}
	}
	if n := st.Count(); n.Denied != 4 {
		t.Errorf("count %+v", n)
	}
	if !st.saw(`tools/call "file_read": secrets`) {
		t.Errorf("security events: %q", st.events)
	}
}

// What a server asks of the guest is decided, and what the guest answers.
func TestAsksJudged(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"sampling":{},"elicitation":{},"roots":{}}`)
	var seen []policy.Event
	block := ""
	st.decideBy(func(ctx context.Context, r *policy.Event) policy.Decision {
		if r.Method == "tools/call" {
			return policy.Decision{Action: policy.Allow}
		}
		seen = append(seen, *r)
		if r.Method == block && r.On == policy.OnAsk {
			return policy.Decision{Action: policy.Block, Rule: "asks", Reason: "servers do not ask"}
		}
		return noSecrets(ctx, r)
	})
	block = "sampling/createMessage"
	if got := string(g.ok("tools/call", `{"name":"one__sample"}`)); !strings.Contains(got, "MCP request blocked by policy: asks: servers do not ask") {
		t.Errorf("sampling: %s", got)
	}
	if len(g.asks) > 0 {
		t.Error("the guest was asked")
	}
	for _, tt := range []struct{ tool, answer, want string }{
		{"one__elicit", `"result":{"content":"the secret"}`, "MCP result blocked by policy: secrets: it has a secret"},
		{"one__roots", `"error":{"code":-1,"message":"secret"}`, "MCP result blocked by policy: secrets"},
		{"one__roots", `"result":{"roots":[]}`, `"answer":{"roots":[]}`},
	} {
		ch := g.send(g.request("tools/call", `{"name":"`+tt.tool+`"}`))
		f := <-g.asks
		var q reply
		json.Unmarshal(f.Payload, &q)
		f.Payload = []byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,` + tt.answer + `}`)
		f.Flags = frame.FromHost
		g.w.WriteFrame(f)
		if m := g.wait(ch); !strings.Contains(string(m.Result), tt.want) {
			t.Errorf("%s: %s %+v, want %s", tt.tool, m.Result, m.Error, tt.want)
		}
	}
	if len(seen) != 7 || seen[0].Server != "one" || seen[0].Process == "" || string(seen[0].Args) != `{"messages":[],"maxTokens":9007199254740993}` ||
		string(seen[6].Answer) != `{"roots":[]}` || seen[6].Method != "roots/list" || seen[6].On != policy.OnResponse || seen[5].On != policy.OnAsk {
		t.Errorf("decided: %+v", seen)
	}
	if !st.saw(`sampling/createMessage "one": asks`) {
		t.Errorf("security events: %q", st.events)
	}
}

// A call that is cancelled takes the decision with it that its server waits for.
func TestAskCancelled(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	g := st.hello(t, 2, `{"sampling":{}}`)
	gone := make(chan struct{})
	asked := make(chan struct{})
	st.decideBy(func(ctx context.Context, r *policy.Event) policy.Decision {
		if r.On == policy.OnAsk {
			close(asked)
			<-ctx.Done()
			close(gone)
		}
		return policy.Decision{Action: policy.Allow}
	})
	g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"one__sample"}}`)
	<-asked
	g.notify("notifications/cancelled", `{"requestId":"x"}`)
	<-gone
	g.ok("ping", "")
	if len(g.asks) > 0 {
		t.Error("the guest was asked")
	}
}

// A call that is under way for longer is told of while it is, and once.
func TestBegunIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan string, 9)
	st := newSite(t, func(cfg *Config) { cfg.Begun = func(text, _ string) { told <- text } }, nil)
	someone := newPerson()
	st.decideBy(someone.decide)
	g := st.dial(t, 1)
	answer := g.send(g.request("tools/call", readFile))
	<-someone.asked
	if text := <-told; text != "1 tools/call file_read" {
		t.Errorf("told %q", text)
	}
	if list := st.db.UnderWay(); len(list) != 1 || list[0].Tool != "file_read" {
		t.Errorf("under way are %+v", list)
	}
	p := make([]byte, 64<<10)
	n, err := st.db.Log(ledger.Calls).ReadAt(t.Context(), p, 0, true)
	if line := string(p[:n]); err != nil || !strings.HasPrefix(line, `{"begun":true,"id":1,`) || !strings.Contains(line, `"tool_name":"file_read"`) {
		t.Errorf("the ledger has %q, %v", line, err)
	}
	someone.answer <- policy.Decision{Action: policy.Block}
	g.wait(answer)
	st.lines(1)
	if len(told) > 0 || len(st.db.UnderWay()) > 0 {
		t.Error("it is told again, or still")
	}
}
