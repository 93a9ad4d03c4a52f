package hostmcp

import (
	"strings"
	"testing"
)

// TestAnswer decides what an agent asks.
func TestAnswer(t *testing.T) {
	s := newSite(t)
	c := s.connect()
	ctx := t.Context()
	tree, err := dial(ctx, s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	if err := tree.store(ctx, "profiles/default.toml", []byte("[security]\ndefault = \"ask\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.call("create", args{"name": "dev"})
	for _, a := range []struct{ answer, reason, want string }{{"allow", "", `"content"`}, {"deny", "not today", "not today"}} {
		agent, err := dial(ctx, s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer agent.close()
		called := make(chan string, 1)
		go func() {
			text, err := agent.ask(ctx, "vm/dev/mcp/tools/dir_list/call", "{}")
			called <- text + errorText(err)
		}()
		waiting := c.call("asks", args{"wait": 60})["asks"].([]any)
		ask := waiting[0].(args)
		if len(waiting) != 1 || ask["vm"] != "dev" || ask["tool"] != "dir_list" {
			t.Fatalf("asks: %v", waiting)
		}
		use := args{"id": ask["id"], "answer": a.answer}
		if a.reason != "" {
			use["reason"] = a.reason
		}
		c.call("answer", use)
		if got := <-called; !strings.Contains(got, a.want) {
			t.Errorf("%s: %s", a.answer, got)
		}
		c.fails("answer", use, "file does not exist: ")
	}
	c.fails("answer", args{"id": 9, "answer": "allow", "reason": "x"}, "invalid argument: only deny takes a reason")
}
