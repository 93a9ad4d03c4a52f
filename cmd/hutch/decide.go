package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// policy measures what deciding a call takes with the last of a hundred
// rules, beside the first of one.
func (b *bencher) policy() error {
	for _, rules := range []int{1, 100} {
		if err := b.withProfile(rulesText(rules), func() error { return b.decisions(rules) }); err != nil {
			return err
		}
	}
	return nil
}

// rulesText is a profile that has n rules, of which only the last blocks what
// decisions asks for.
func rulesText(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "[security.rules.mcp.%s]\non = \"mcp.request\"\ndecision = \"block\"\n", benchRule(i+1))
		fmt.Fprintf(&text, "if = 'mcp.request.tool_name == \"create_issue\" && mcp.request.arguments.title.startsWith(\"%03d\")'\n", i+1)
	}
	return text.String()
}

func benchRule(n int) string { return fmt.Sprintf("bench%03d", n) }

// decisions adds a figure of what the service says each decision took.
func (b *bencher) decisions(rules int) error {
	dir, made, err := (&policySource{profile: benchVM}).likeVM(b.c)
	if err != nil {
		return err
	}
	defer made.Close() // with which the VM goes
	f, err := b.c.open(dir+"/policy/test", os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	try := tryOpen(f)
	event := fmt.Appendf(nil, `{"server":"github","tool":"create_issue","arguments":{"title":"%03d what is wrong","body":"much","labels":["a","b"]}}`, rules)
	took := make([]time.Duration, 0, 5000)
	for len(took) < cap(took) {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		t, err := try(event)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(t.Rule, benchRule(rules)) {
			return fmt.Errorf("%s decided, not %s", t.Rule, benchRule(rules))
		}
		took = append(took, time.Duration(t.Micros*float64(time.Microsecond)))
	}
	b.add(fmt.Sprintf("decided by rule %d of %[1]d", rules), "≤ 0.050 ms p50", took, sum(took))
	return nil
}
