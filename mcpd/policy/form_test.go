package policy

import (
	"strings"
	"testing"
)

// TestResultForm has results that rules look at pass only where a client finds nothing
// in them that rules do not.
func TestResultForm(t *testing.T) {
	rules := map[string]Rule{
		"redact": {ID: "r", Priority: 1, On: OnResponse, Decision: Rewrite, Redact: []string{"content[*].text"}, Match: "BADWORD"},
		"block":  {ID: "r", Priority: 1, On: OnResponse, Decision: Block, If: `mcp.response.content.exists(c, has(c.text) && c.text.contains("FORBID"))`},
	}
	tests := []struct{ method, answer, reason string }{
		{"tools/call", `{"content":[{"type":"text","text":"x","Text":"BADWORD7 FORBID3"}]}`, "ambiguous member"},
		{"tools/call", `{"content":[{"type":"text","Text":"FORBID"}]}`, "ambiguous member"},
		{"tools/call", `{"content":[],"structuredContent":{"a":{"x":1,"X":"FORBID"}}}`, "ambiguous member"},
		{"tools/call", `{"Content":[{"type":"text","text":"FORBID"}]}`, "ambiguous member"},
		{"tools/call", `{"content":"FORBID11"}`, "content of a result is a list"},
		{"tools/call", `{"content":{"type":"text","text":"FORBID"}}`, "content of a result is a list"},
		{"tools/call", `{"content":["FORBID"]}`, "has objects in it"},
		{"tools/call", `"FORBID"`, "a result is an object"},
		{"tools/call", `["FORBID"]`, "a result is an object"},
		{"resources/read", `{"contents":{"text":"FORBID"}}`, "contents of a result is a list"},
		{"prompts/get", `{"messages":"FORBID"}`, "messages of a result is a list"},
		{"tools/call", `{"content":[{"type":"text","text":"x"}],"structuredContent":{"A":1,"b":2}}`, ""},
		{"tools/call", `{"content":null,"isError":true}`, ""},
		{"tools/call", `{"task":{"taskId":"1"}}`, ""},
		{"sampling/createMessage", `{"role":"assistant","content":{"type":"text","text":"x"}}`, ""},
	}
	for name, r := range rules {
		p := compiled(t, Config{Rules: []Rule{r}})
		for _, tt := range tests {
			e := &Event{On: OnResponse, Method: tt.method, Name: "a__b", Tool: "b", Server: "a", Answer: []byte(tt.answer)}
			d := p.Decide(e)
			if refused := d.Rule == ruleForm && strings.Contains(d.Reason, tt.reason); refused != (tt.reason != "") {
				t.Errorf("%s: %s: %s by %s: %s", name, tt.answer, d.Action, d.Rule, d.Reason)
			}
		}
		plain := &Event{On: OnResponse, Method: "tools/call", Answer: []byte(`{"code":1,"message":"no","data":"x"}`), Error: true, Failed: true}
		if d := p.Decide(plain); d.Action != Allow {
			t.Errorf("%s: an error is refused: %s", name, d.Reason)
		}
	}
	e := &Event{On: OnResponse, Method: "tools/call", Answer: []byte(`{"code":1,"message":"FORBID","isError":true}`), Error: true, Failed: true}
	if d := compiled(t, Config{Rules: []Rule{rules["block"]}}).Decide(e); d.Action != Block {
		t.Errorf("an error that says it is a result: %s", d.Action)
	}
}
