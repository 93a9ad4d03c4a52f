package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkRules has the last of a hundred rules decide a call, beside the
// first of one, for conditions as profiles have them. All must look at the
// arguments; %03d is the rule's number.
func BenchmarkRules(b *testing.B) {
	for _, bm := range []struct{ name, condition string }{
		{"startsWith", `mcp.request.tool_name == "create_issue" && mcp.request.arguments.title.startsWith("%03d")`},
		{"matches", `mcp.request.tool_name == "create_issue" && mcp.request.arguments.title.matches("^%03d (what|who|where) is [a-z]+$")`},
		{"in", `mcp.request.arguments.title in ["urgent", "asap", "%03d what is wrong", "please"]`},
		{"exists", `mcp.request.arguments.labels.exists(l, l == "%03d")`},
	} {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/last-of-%d", bm.name, n), func(b *testing.B) { benchmarkRules(b, bm.condition, n) })
		}
	}
}

func benchmarkRules(b *testing.B, condition string, n int) {
	var rules []Rule
	for i := range n {
		rules = append(rules, Rule{
			ID: fmt.Sprintf("r%03d", i), On: OnRequest, Decision: Block, Priority: 1,
			If: fmt.Sprintf(condition, i+1),
		})
	}
	p, err := New(Config{Rules: rules})
	if err != nil {
		b.Fatal(err)
	}
	last := fmt.Sprintf("%03d", n)
	decide(b, p, Event{
		On: OnRequest, Method: "tools/call", Server: "github", Tool: "create_issue", Name: "github__create_issue", Known: true,
		Args: []byte(`{"title":"` + last + ` what is wrong","body":"much","labels":["a","b","` + last + `"]}`),
	}, Block)
}

// BenchmarkDefault decides a call by the policy of a profile that says nothing.
func BenchmarkDefault(b *testing.B) {
	p, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	decide(b, p, Event{On: OnRequest, Method: "tools/call", Server: "s", Tool: "echo", Name: "s__echo", Known: true, Args: []byte(`{"message":"m"}`)}, Allow)
}

// decide has an event decided, as new each time.
func decide(b *testing.B, p *Policy, e Event, action string) {
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		now := e
		begun := time.Now()
		d := p.Decide(&now)
		took = append(took, time.Since(begun))
		if d.Action != action {
			b.Fatalf("decided %+v", d)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}
