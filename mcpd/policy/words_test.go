package policy

import (
	"strings"
	"testing"
)

// A condition that compares what can be a few words only with another is an error.
func TestWords(t *testing.T) {
	for _, tt := range []struct{ on, cond, wrong string }{
		{OnResponse, `mcp.response.result_status == "ok"`, ""},
		{OnResponse, `mcp.response.result_status in ["failed", "error"]`, ""},
		{OnResponse, `"a" == "b" || mcp.request.name == "x"`, ""},
		{OnResponse, `mcp.response.result_status == "denied"`, `mcp.response.result_status is never "denied": it is one of ok, failed, error`},
		{OnResponse, `"success" == mcp.response.result_status`, `is never "success"`},
		{OnResponse, `!(mcp.response.result_status != "x")`, `is never "x"`},
		{OnResponse, `mcp.response.result_status in ["ok", "blocked"]`, `is never "blocked"`},
	} {
		_, err := New(Config{Rules: []Rule{{ID: "r", On: tt.on, If: tt.cond, Decision: Block, Priority: 1}}})
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: %v, want %q", tt.cond, err, tt.wrong)
		}
	}
}

// What is matched goes from the names of members, too, and no two become one.
func TestRedactNames(t *testing.T) {
	p := compiled(t, Config{Rules: []Rule{{ID: "r", On: OnResponse, Decision: Rewrite, Priority: 1, Redact: []string{"structuredContent"}, Match: `key-[0-9]+`}}})
	e := Event{On: OnResponse, Answer: []byte(`{"structuredContent": {"key-1" : "x key-2", "a":{"key-3":1,"key-4":2,"ke\u0079-5":3}}, "key-6":1}`)}
	want := `{"structuredContent": {"[redacted]" : "x [redacted]", "a":{"[redacted]":1,"[redacted] 2":2,"[redacted] 3":3}}, "key-6":1}`
	if d := p.Decide(&e); d.Action != Rewrite || string(d.Rewritten) != want {
		t.Errorf("%+v\n%s", d, d.Rewritten)
	}
}

// What is allowed for one number exactly is not for another that is the same once
// rounded.
func TestExactNumbers(t *testing.T) {
	call := func(args string) *Event {
		return &Event{On: OnRequest, Method: "tools/call", Name: "x", Known: true, Args: []byte(args)}
	}
	asks := Config{Default: Ask}
	rule, err := compiled(t, asks).Always(call(`{"n":9007199254740993}`), RuleDefault, true)
	if err != nil {
		t.Fatal(err)
	}
	asks.Rules = []Rule{rule}
	p := compiled(t, asks)
	for args, want := range map[string]string{
		`{"n":9007199254740993}`: Allow, `{"n":9007199254740993.0}`: Ask, `{"n":9007199254740993e0}`: Ask, `{"n":9007199254740992.0}`: Ask, `{"n":9007199254740992}`: Ask,
	} {
		if d := p.Decide(call(args)); d.Action != want {
			t.Errorf("%s: %+v", args, d)
		}
	}
	if _, err := compiled(t, Config{Default: Ask}).Always(call(`{"n":9007199254740993.0}`), RuleDefault, true); err == nil {
		t.Error("a number that is rounded is allowed exactly")
	}
	if numberOf("9007199254740992.0") != int64(9007199254740992) || numberOf("1e19") != uint64(1e19) || numberOf("1e23") != 1e23 {
		t.Error("numbers that are not rounded are refused")
	}
}
