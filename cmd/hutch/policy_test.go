package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A policy is tested by a file of events, without a service.
func TestPolicyTest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	profile := write("team.toml", `
[security.rules.mcp.token]
on = "mcp.request"
if = 'has(mcp.request.arguments.token) && mcp.request.arguments.token.startsWith("prod-")'
decision = "block"
`)
	good := write("good.jsonl", `# no production tokens

{"server":"github","tool":"create_issue","arguments":{"token":"prod-1"},"expect":"block"}
{"server":"github","tool":"create_issue","arguments":{"token":"prod-1"},"expect":{"decision":"block","rule":"security.rules.mcp.token"}}
{"server":"github","tool":"create_issue","arguments":{},"expect":"allow"}
`)
	bad := write("bad.jsonl", `{"tool":"x","expect":"block"}
{"tool":"x","expect":{"decision":"allow","rule":"other"}}
{"tool":"x"}
{"tool":"x","argumnets":{},"expect":"allow"}
nonsense
{"tool":"x","expect":"blok"}
{"tool":"github__create_issue","expect":"allow"}
{"tool":"x","expect":["allow"]}
`)
	p := policySource{file: profile}
	if err := p.test(t.Context(), []string{good}); err != nil {
		t.Errorf("good: %v", err)
	}
	if err := p.test(t.Context(), []string{good, bad}); err != exit(1) {
		t.Errorf("bad: %v", err)
	}
	text, _ := os.ReadFile(profile)
	try, err := tryText(profile, text)
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := os.ReadFile(bad)
	for i, want := range []string{"got allow by default, want block", "got allow by default, want allow by other", "expect says no decision", `"argumnets" is not known`, "invalid character", `expect is "blok": it is one of allow, ask, block, rewrite`, `say it as "name"`, `expect is a decision, as "block"`} {
		if got := testLine([]byte(strings.Split(string(lines), "\n")[i]), try); !strings.Contains(got, want) {
			t.Errorf("line %d: %q, want %q", i+1, got, want)
		}
	}
	if err := p.test(t.Context(), []string{write("none.jsonl", "# nothing\n")}); err != exit(1) {
		t.Errorf("no events: %v", err)
	}
	if err := (&policySource{file: write("wrong.toml", "security = 1\n")}).test(t.Context(), []string{good}); err == nil {
		t.Error("a profile that does not parse was tested")
	}
}

// A request is tried by the hosts of the profile, too.
func TestPolicyTestHosts(t *testing.T) {
	try, err := tryText("net.toml", []byte("[network]\nallow = [\"pypi.org:443\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"on":"http","host":"evil.org","port":443,"expect":"block"}`,
		`{"on":"http","host":"pypi.org","port":443,"expect":{"decision":"allow","rule":"allow pypi.org:443"}}`,
	} {
		if got := testLine([]byte(line), try); got != "" {
			t.Errorf("%s: %s", line, got)
		}
	}
}

// An event expects what would be decided of it, where that is only observed.
func TestPolicyTestObserved(t *testing.T) {
	try, err := tryText("watch.toml", []byte("[security]\nmode = \"observe\"\ndeny = [\"x\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := testLine([]byte(`{"tool":"x","expect":"block"}`), try); got != "" {
		t.Error(got)
	}
	if got := testLine([]byte(`{"tool":"x","expect":"allow"}`), try); !strings.HasPrefix(got, "got block by ") {
		t.Errorf("got %q", got)
	}
}
