//go:build linux

package main_test

import (
	"strings"
	"syscall"
	"testing"
)

// TestAsks has people answer by the command what a policy leaves to them, and
// hutchd killed while a call waits for that.
func TestAsks(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", `[security.rules.mcp.writes]
on = "mcp.request"
if = 'mcp.request.tool_name == "file_write"'
decision = "ask"
reason = "writing is for people to allow"
`)
	s.vm("dev")
	s.mkdir("vm/dev/mcp/sessions/s")
	call := func(text string) {
		s.write("vm/dev/mcp/sessions/s/ctl", `call file_write {"path":"f","content":"`+text+`"}`+"\n")
	}
	hutch := func(in string, args ...string) (string, error) {
		cmd := s.command("hutch", args...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	content := func(want string) {
		t.Helper()
		poll(t, "the file has "+want, func() bool { out, _ := s.sh("dev", "cat /workspace/f"); return out == want })
	}

	call("one")
	poll(t, "a question", func() bool {
		out, err := hutch("", "asks")
		return err == nil && strings.Contains(out, "security.rules.mcp.writes") && strings.Contains(out, `file_write {"path":"f","content":"one"}`)
	})
	if out, err := hutch("", "allow", "1"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content("one")
	if out, err := hutch("", "deny", "1", "too", "late"); err == nil || !strings.Contains(out, "answered allow") {
		t.Errorf("a second answer: %v: %s", err, out)
	}
	call("two")
	call("three")
	poll(t, "two questions", func() bool { // a line that comes before its question is dropped
		out, err := hutch("", "asks")
		return err == nil && strings.Contains(out, `"two"`) && strings.Contains(out, `"three"`)
	})
	out, err := hutch("?\nnot now\ny\n", "asks", "-i")
	if err != nil || strings.Count(out, "writing is for people to allow") != 2 {
		t.Errorf("asks -i: %v: %s", err, out)
	}
	if out, err := hutch("y\nmore\n", "asks", "-i"); err != nil || !strings.Contains(out, "more is dropped") {
		t.Errorf("asks -i about nothing: %v: %s", err, out)
	}
	if log := s.read("vm/dev/log/asks"); !strings.Contains(log, `"answer_reason":"not now"`) {
		t.Errorf("log/asks: %s", log)
	}
	if out, err := hutch("", "policy", "rules", "dev"); err != nil || !strings.Contains(out, "security.rules.mcp.writes ask") {
		t.Errorf("policy rules: %v: %s", err, out)
	}
	if out, err := hutch("", "policy", "suggest", "dev"); err != nil || !strings.Contains(out, "\"file_write\", // ") {
		t.Errorf("policy suggest: %v: %s", err, out)
	}
	s.write("profiles/open.toml", "")
	s.write("profiles/closed.toml", "[security]\ndefault = \"block\"\n")
	for profile, want := range map[string]string{"": "", "open": `"then":"block","then_rule":"security.rules.mcp.writes","now":"allow"`, "closed": `"then":"allow","then_rule":"security.rules.mcp.writes","now":"block"`} {
		out, err := hutch("", "policy", "-profile", profile, "replay", "dev")
		if err != nil || !strings.Contains(out, want) || (out == "") != (want == "") {
			t.Errorf("policy replay by %q: %v: %s", profile, err, out)
		}
	}
	if out, err := hutch("", "policy", "-file", "x", "replay", "dev"); err == nil || !strings.Contains(out, "usage") {
		t.Errorf("policy replay of a file: %v: %s", err, out)
	}

	was, _ := s.sh("dev", "cat /workspace/f")
	call("killed")
	poll(t, "a question", func() bool { out, _ := hutch("", "asks"); return strings.Contains(out, "killed") })
	s.signal(syscall.SIGKILL)
	s.start()
	if out, err := hutch("", "asks", "-json"); err != nil || out != "" {
		t.Errorf("after the kill: %v: %s", err, out)
	}
	if out, err := hutch("", "allow", "4"); err == nil {
		t.Errorf("what is gone was allowed: %s", out)
	}
	log := strings.Split(strings.TrimSpace(s.read("vm/dev/log/mcp")), "\n")
	if last := log[len(log)-1]; !strings.Contains(last, `"outcome":"interrupted"`) || !strings.Contains(last, `"policy_action":"ask"`) || !strings.Contains(last, "killed") {
		t.Errorf("after the kill: %s", last)
	}
	content(was)
	s.mkdir("vm/dev/mcp/sessions/s")
	call("five")
	poll(t, "a question with a number of its own", func() bool { out, _ := hutch("", "asks"); return strings.Contains(out, "\n5 ") })
	if out, err := hutch("", "allow", "-always", "5"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content("five")
	call("six")
	content("six")
}
