package mcpd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/attest"
	"hutch/mcpd/frame"
	"hutch/mcpd/policy"
	"hutch/mcpd/seal"
	caller "hutch/relay/call"
)

// sealedSite is a site with a Gate, whose profile says whether envelopes have to
// be.
func sealedSite(t testing.TB, dir string, required bool, servers []wire.Server) *site {
	t.Helper()
	gate := attest.New(attest.Config{
		Key: attest.NewKey(filepath.Join(dir, "key")), Path: filepath.Join(dir, "sealed"), VM: func() string { return "dev" },
	})
	st := newSite(t, func(c *Config) { c.Seal, c.Profile = gate, func() string { return "default" } }, servers)
	t.Cleanup(func() { gate.Close() })
	st.require(required, servers)
	return st
}

func (st *site) require(required bool, servers []wire.Server) {
	st.t.Helper()
	p := compiled(st.t, policy.Config{Sealed: policy.Sealed{Required: required, Life: time.Hour}})
	if err := st.Reload(context.Background(), servers, p); err != nil {
		st.t.Fatal(err)
	}
}

// signer has the guest's key attested.
func (g *guest) signer() *seal.Signer {
	g.t.Helper()
	s, err := seal.NewSigner()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := s.Accept(g.ok(seal.Attest, string(s.Params())), time.Now()); err != nil {
		g.t.Fatal(err)
	}
	return s
}

// signed returns a request in its envelope.
func (g *guest) signed(s *seal.Signer, method, params string) string {
	return string(s.Sign([]byte(g.request(method, params)), time.Now()))
}

// refused sends a payload that is answered with a refusal, and returns its data.
func (g *guest) refused(payload string) string {
	g.t.Helper()
	m := g.wait(g.send(payload))
	if m.Error == nil || m.Error.Code != -32600 || !strings.Contains(m.Error.Message, ruleSealed) {
		g.t.Errorf("%s: %s %+v", payload, m.Result, m.Error)
		return ""
	}
	return string(m.Error.Data)
}

func TestSealed(t *testing.T) {
	servers := testServers("plain")
	st := sealedSite(t, t.TempDir(), true, servers)
	g := st.dial(t, frame.Version2)
	hello := g.ok("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	const offered = `{"supported":true,"version":"seal/v1","attestation_endpoint":"seal/attest","required":true}`
	if got := rawjson.Get(hello, "capabilities", "extensions", "seal"); string(got) != offered {
		t.Errorf("offered: %s", hello)
	}
	g.ok("ping", "")
	const unsigned = `{"protocol":"seal/v1","code":1000,"name":"MALFORMED_ENVELOPE","reason":"unsigned","class":"fatal"}`
	for _, method := range []string{"tools/list", "tools/call", "resources/read", "no/such"} {
		if data := g.refused(g.request(method, `{"name":"plain__echo","arguments":{}}`)); data != unsigned {
			t.Errorf("%s: %s", method, data)
		}
	}
	s := g.signer()
	call := g.signed(s, "tools/call", `{"name":"plain__echo","arguments":{"text":"hi there"}}`)
	if m := g.wait(g.send(call)); m.Error != nil || !strings.Contains(string(m.Result), "hi there") {
		t.Errorf("signed: %s %+v", m.Result, m.Error)
	}
	if data := g.refused(call); !strings.Contains(data, `"reason":"replay"`) {
		t.Error(data)
	}
	if data := g.refused(strings.Replace(call, "hi there", "hi their", 1)); !strings.Contains(data, `"code":1002`) {
		t.Error(data)
	}
	rows := st.lines(9)
	if r := rows[6]; r["decision"] != "allowed" || r["method"] != "tools/call" {
		t.Errorf("%v", r)
	}
	for i, want := range map[int]string{1: "unsigned: ", 7: "replay: ", 8: "signature: "} {
		if r := rows[i]; r["decision"] != "denied" || r["policy_rule"] != ruleSealed || !strings.HasPrefix(fmt.Sprint(r["policy_reason"]), want) {
			t.Errorf("%v", r)
		}
	}
	if r := rows[5]; r["method"] != seal.Attest || !strings.Contains(fmt.Sprint(r["response_preview"]), `"security_token":"[redacted]"`) {
		t.Errorf("%v", r)
	}
	for _, text := range []string{"mcp.envelope: process agent: tools/call: unsigned: ", "tools/call: replay: ", "tools/call: signature: "} {
		if !st.saw(text) {
			t.Errorf("nothing was told of %s: %q", text, st.events)
		}
	}
}

// TestSealedTwice has a new endpoint, as a new hutchd makes one, refuse what the
// last one took, and take its tokens.
func TestSealedTwice(t *testing.T) {
	dir, servers := t.TempDir(), testServers("plain")
	st := sealedSite(t, dir, true, servers)
	g := st.dial(t, frame.Version2)
	s := g.signer()
	g.send(g.request("ping", ""))
	call := g.signed(s, "tools/list", "")
	if m := g.wait(g.send(call)); m.Error != nil {
		t.Fatalf("%+v", m.Error)
	}
	st.cfg.Seal.Close()
	st = sealedSite(t, dir, true, servers)
	g = st.dial(t, frame.Version2)
	if data := g.refused(call); !strings.Contains(data, `"reason":"replay"`) {
		t.Error(data)
	}
	if m := g.wait(g.send(g.signed(s, "tools/list", ""))); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
	if err := st.cfg.Seal.Revoke("all"); err != nil {
		t.Fatal(err)
	}
	if data := g.refused(g.signed(s, "tools/list", "")); !strings.Contains(data, `"code":1006,"name":"SESSION_INACTIVE"`) {
		t.Error(data)
	}
	other := sealedSite(t, t.TempDir(), true, servers)
	data := other.dial(t, frame.Version2).refused(g.signed(s, "tools/list", ""))
	if !strings.Contains(data, `"reason":"token"`) {
		t.Error(data)
	}
}

// TestSealedOrNot has a profile that does not ask for envelopes: they may be
// sent all the same, and then have to be good.
func TestSealedOrNot(t *testing.T) {
	servers := testServers("plain")
	st := sealedSite(t, t.TempDir(), false, servers)
	g := st.hello(t, frame.Version1, "{}")
	g.ok("tools/list", "")
	s := g.signer()
	call := g.signed(s, "tools/list", "")
	if m := g.wait(g.send(call)); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
	g.refused(call)
	ping := g.signed(s, "ping", "")
	if m := g.wait(g.send(ping)); m.Error != nil {
		t.Errorf("%+v", m.Error)
	}
	g.refused(ping)
	st.require(true, servers)
	g.refused(g.request("tools/list", ""))
	st.require(false, servers)
	g.ok("tools/list", "")
}

// TestBadEnvelopes has messages of which something is missing.
func TestBadEnvelopes(t *testing.T) {
	st := sealedSite(t, t.TempDir(), true, nil)
	g := st.dial(t, frame.Version2)
	s := g.signer()
	for _, payload := range []string{
		`{"protocol":"seal/v1"}`, `{"payload":`, `{"payload":{"jsonrpc":"2.0","id":1,"method":"ping"}}`,
		`{"signature":"","payload":[1]}`, "{\"protocol\":\"\xff\"}",
	} {
		g.refused(payload)
	}
	for payload, code := range map[string]int{
		string(s.Sign([]byte(`{"jsonrpc":"2.0"}`), time.Now())):                   -32600,
		string(s.Sign([]byte(`{"id":7}`), time.Now())):                            -32600,
		string(s.Sign([]byte(g.signed(s, "ping", "")), time.Now())):               -32600, // one in another
		string(s.Sign([]byte(g.request("no/such", "")), time.Now())):              -32601,
		string(s.Sign([]byte(g.request("tools/call", `{"name":5}`)), time.Now())): -32602,
		g.request(seal.AttestSMCP, `{"public_key":"x"}`):                          -32600,
		g.request(seal.AttestSMCP, string(s.Params()[:20])+`","public_key":"y"}`): -32600,
	} {
		if m := g.wait(g.send(payload)); m.Error == nil || m.Error.Code != code {
			t.Errorf("%s: %s %+v", payload, m.Result, m.Error)
		}
	}
	data := g.wait(g.send(g.request(seal.AttestSMCP, `{"public_key":"x"}`))).Error.Data
	if !strings.HasPrefix(string(data), `{"protocol":"smcp/v1","code":3002,"name":"WORKLOAD_VERIFICATION_FAILED"`) &&
		!strings.Contains(string(data), "RATE_LIMIT") {
		t.Errorf("%s", data)
	}
	var m reply
	for range 6 {
		m = g.do(seal.Attest, string(s.Params()))
	}
	if m.Error == nil || !strings.Contains(string(m.Error.Data), `"reason":"rate","retry_after_ms":`) || !json.Valid(m.Error.Data) {
		t.Errorf("%+v", m)
	}
	for end := time.Now().Add(patience); st.Pending() != 0; { // calls end after their answers
		if time.Now().After(end) {
			t.Fatalf("%d bytes are pending", st.Pending())
		}
	}
}

// TestNoGate has an endpoint that knows no envelopes: what has to be in one is
// refused.
func TestNoGate(t *testing.T) {
	st := newSite(t, nil, nil)
	g := st.hello(t, frame.Version2, "{}")
	g.fails(seal.Attest, `{"public_key":""}`, -32601, "method not found")
	st.require(true, nil)
	g.refused(g.request("tools/list", ""))
}

// A speaker is a program that speaks to a relay.
type speaker struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (p *speaker) ask(line string) string {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return answer
}

// TestRelaySigns has programs that know of no envelope call tools, by relays
// that do and by one that does not.
func TestRelaySigns(t *testing.T) {
	servers := testServers("plain")
	st := sealedSite(t, t.TempDir(), true, servers)
	const hello = `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	n := 0
	call := func() string { // each has an id of its own, as MCP wants it
		n++
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"plain__echo","arguments":{"text":"hi there"}}}`, n)
	}
	program := func() *speaker {
		out, in := st.program(t, "speaker")
		p := &speaker{t, in, bufio.NewReader(out)}
		if answer := p.ask(hello); !strings.Contains(answer, `"required":true`) {
			t.Errorf("initialize: %s", answer)
		}
		return p
	}
	if answer := program().ask(call()); !strings.Contains(answer, `"reason":"unsigned"`) {
		t.Errorf("not signed: %s", answer)
	}
	st.seals = true
	for _, version := range []string{"1", "2"} {
		t.Setenv("HUTCH_RELAY_VERSION", version)
		p := program()
		for range 3 {
			if answer := p.ask(call()); !strings.Contains(answer, "hi there") || !strings.Contains(answer, fmt.Sprintf(`"id":%d,`, n)) {
				t.Errorf("signed: %s", answer)
			}
		}
		if err := st.cfg.Seal.Revoke("all"); err != nil {
			t.Fatal(err)
		}
		if answer := p.ask(call()); !strings.Contains(answer, "SESSION_INACTIVE") {
			t.Errorf("revoked: %s", answer)
		}
		if answer := p.ask(call()); !strings.Contains(answer, "hi there") {
			t.Errorf("attested anew: %s", answer)
		}
		for _, s := range st.each(func(*session) bool { return true }) {
			s.hangUp() // as a hutchd does that ends
		}
		for answer := ""; !strings.Contains(answer, "hi there"); answer = p.ask(call()) {
			if answer != "" && !strings.Contains(answer, "-32001") {
				t.Fatalf("connected anew: %s", answer)
			}
		}
	}
}

func TestCallSigns(t *testing.T) {
	servers := testServers("plain")
	st := sealedSite(t, t.TempDir(), true, servers)
	for _, sealed := range []bool{true, false} {
		a, b := socketPair(t)
		served := make(chan error)
		go func() { served <- st.Serve(context.Background(), b) }()
		c, err := caller.New(t.Context(), a, "t", sealed)
		if err != nil {
			t.Fatal(err)
		}
		result, err := c.Tool(t.Context(), "plain__echo", json.RawMessage(`{"text":"hi there"}`))
		if done := err == nil && strings.Contains(string(result), "hi there"); done != sealed {
			t.Errorf("sealed %v: %s %v", sealed, result, err)
		}
		c.Close()
		<-served
	}
}

// TestHostNeedsNoEnvelope has a client of the host call a tool.
func TestHostNeedsNoEnvelope(t *testing.T) {
	servers := testServers("plain")
	st := sealedSite(t, t.TempDir(), true, servers)
	a, b := socketPair(t)
	served := make(chan error)
	go func() { served <- st.ServeFor(context.Background(), b, "glenda") }()
	c, err := caller.New(t.Context(), a, "t", false)
	if err != nil {
		t.Fatal(err)
	}
	if result, err := c.Tool(t.Context(), "plain__echo", json.RawMessage(`{"text":"hi"}`)); err != nil {
		t.Errorf("%s %v", result, err)
	}
	c.Close()
	<-served
	if _, err := st.Call(t.Context(), Caller{Process: "hutch"}, "plain__echo", json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
}
