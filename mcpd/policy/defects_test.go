package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A defect is one that others have and this program must not. What concerns
// deciding is tried here, each with its own reason; the rest is where it lives.
type defect struct {
	name  string
	tries []try    // against what defectPolicy says
	where []string // FILE TEST, in other packages
}

// defectPolicy has every kind of check that a defect is about.
var defectPolicy = Config{
	Deny: []string{"shell.*", "fs.read:/etc/*"},
	Capabilities: []Capability{
		{Name: "files", Tools: []string{"fs.*", "files__*"}, Paths: []string{"/workspace"}},
		{Name: "all", Tools: []string{"host.*"}, Paths: []string{"/"}},
		{Name: "web", Tools: []string{"web.*", "browser__*"}, Domains: []string{"example.com", "*.wikipedia.org"}},
		{Name: "run", Tools: []string{"cmd.run", "build__run"}, Commands: []string{"ls"}, Subcommands: map[string][]string{"cargo": {"build"}, "git": {"status"}}},
		{Name: "slow", Tools: []string{"slow.*"}, Rate: "1/1h", MaxResponse: 3},
	},
}

// aegis are those of AEGIS's code.
var aegis = []defect{
	{"a pattern of a prefix ends anywhere", []try{{"fsx.y", `{"path":"a"}`, "ToolNotAllowed", "no capability is for tool"}}, nil},
	{"paths are compared as they stand", []try{
		{"fs.read", `{"path":"/workspace/../etc/passwd"}`, "PathTraversalAttempt", ".. in it"},
		{"fs.read", `{"path":"/workspace/%2e%2e/etc/passwd"}`, "PathTraversalAttempt", ".. in it"},
		{"fs.write", `{"path":"/workspacex"}`, "PathOutsideBoundary", "is outside of /workspace"},
	}, nil},
	{"paths are looked for under one name, in tools of one name", []try{
		{"files__open", `{"file_path":"/etc/x"}`, "PathOutsideBoundary", "of file_path"},
		{"fs.move", `{"from":"a","to":"/etc/x"}`, "PathOutsideBoundary", "of to"},
		{"fs.move", `{"from":"/etc/x","to":"a"}`, "PathOutsideBoundary", "of from"},
		{"fs.edit", `{"path":"a","edits":[{"path":"/etc/x"}]}`, "PathOutsideBoundary", "edits[].path"},
		{"fs.read", `{"name":"/etc/x"}`, "MissingRequiredArgument", "no argument is a path"},
	}, nil},
	{"hosts are looked for under one name, and none is fine", []try{
		{"web.fetch", `{}`, "MissingRequiredArgument", "no argument says a host"},
		{"browser__open", `{"href":"https://evil.com/"}`, "DomainNotAllowed", "of href"},
	}, nil},
	{"a documented pattern matches nothing", []try{
		{"web.fetch", `{"url":"https://en.wikipedia.org/wiki/Go"}`, "", ""},
		{"web.fetch", `{"url":"https://wikipedia.org/"}`, "DomainNotAllowed", "*.wikipedia.org"},
	}, nil},
	{"hosts are compared from their ends", []try{
		{"web.fetch", `{"url":"https://evilexample.com/"}`, "DomainNotAllowed", "evilexample.com"},
		{"web.fetch", `{"url":"https://example.com@evil.com/"}`, "DomainNotAllowed", "user's name"},
		{"web.fetch", `{"url":"https://еxample.com/"}`, "DomainNotAllowed", "xn--"},
	}, nil},
	{"the reason is lost", []try{
		{"cmd.run", `{"command":"curl x"}`, "CommandNotAllowed", "curl"},
		{"cmd.run", `{"command":"cargo publish"}`, "SubcommandNotAllowed", "publish"},
	}, nil},
	{"what is denied matches nothing", []try{
		{"shell.exec", `{}`, "ToolExplicitlyDenied", `"shell.*"`},
		{"fs.read", `{"path":"/etc/passwd"}`, "ToolExplicitlyDenied", `"fs.read:/etc/*"`},
	}, nil},
	{"rates and sizes are not counted", []try{
		{"slow.x", `{}`, "", ""},
		{"slow.x", `{}`, "RateLimitExceeded", "try again in"},
	}, []string{"mcpd/capability_test.go TestCapabilities"}},
	{"words are joined for a shell", []try{
		{"build__run", `{"command":"cargo","args":["build",";","curl x"]}`, "CommandNotAllowed", "shell"},
		{"cmd.run", `{"command":"cargo build ; curl x"}`, "CommandNotAllowed", "shell"},
		{"cmd.run", `{"command":"cargo","args":["build ; curl x"]}`, "SubcommandNotAllowed", "build ; curl x"},
	}, nil},
	{"two lists split a command in two ways", []try{
		{"cmd.run", `{"command":"git push"}`, "SubcommandNotAllowed", "push"},
		{"cmd.run", `{"command":"git status"}`, "", ""},
	}, nil},
	{"what is signed has two canonical forms", nil, []string{"mcpd/seal/seal_test.go TestVector", "mcpd/seal/seal_test.go TestCanonical"}},
	{"an answer is made up", nil, []string{"mcpd/everything_test.go TestEverything", "mcpd/sdk_test.go TestSDK"}},
	{"a hung server is running", nil, []string{"mcpd/bad_test.go TestHungServer", "mcpd/bad_test.go TestDyingServer", "aggd/stdio_test.go TestIdle"}},
	{"what was run comes as an inner text", nil, []string{"mcpd/dispatch/dispatch_test.go TestResult"}},
	{"no registry allows every tool", nil, []string{"mcpd/capability_test.go TestNoPolicy"}},
	{"a wrong dispatch id loses the command", nil, []string{"cmd/hutchd/sandbox/run_test.go TestWrongDispatch"}},
	{"a reference becomes something else", nil, []string{"profiles/capability_test.go TestValuesAreTexts"}},
	{"a code comes from the words of a message", nil, []string{"mcpd/seal/seal_test.go TestCodes"}},
	{"a token is good for one call", nil, []string{"mcpd/attest/attest_test.go TestTake"}},
	{"what was seen is forgotten", nil, []string{"mcpd/attest/attest_test.go TestRestart"}},
	{"who asks is what it says of itself", nil, []string{"mcpd/attest/attest_test.go TestOthers"}},
}

// capsem are what Capsem lacks.
var capsem = []defect{
	{"commands side by side lose output", nil, []string{"relay/agent/signal_test.go TestTimeoutKills", "relay/agent/signal_test.go TestKillReachesAll"}},
	{"a large result ends the connection", nil, []string{"mcpd/bad_test.go TestLargeResults"}},
	{"one server holds up the others", nil, []string{"mcpd/bad_test.go TestHungServer", "mcpd/bad_test.go TestDyingServer"}},
	{"no cancel, progress, news", nil, []string{"mcpd/session_test.go TestCancel", "mcpd/upstream_test.go TestProgress", "mcpd/upstream_test.go TestListChanged"}},
	{"a call is slow", nil, []string{"mcpd/bench_test.go BenchmarkCall"}},
	{"a decision is slow", nil, []string{"mcpd/policy/bench_test.go BenchmarkRules"}},
	{"an edit of the same size is not seen", nil, []string{"vmm/snap_linux_test.go TestDiff"}},
	{"what is fetched leads inside", nil, []string{"aggd/guard/guard_test.go TestDial", "aggd/local/local_test.go TestFetch"}},
	{"nobody answers what is asked", nil, []string{"mcpd/asks/asks_test.go TestAnswers", "mcpd/asks/asks_test.go TestUnanswered"}},
	{"records are lost in a crash", nil, []string{"mcpd/ledger/crash_test.go TestKill"}},
	{"what a guest sends is not fuzzed", nil, []string{"mcpd/seal/seal_test.go FuzzEnvelope", "mcpd/policy/capability_test.go FuzzArguments"}},
	{"a guest speaks for another", nil, []string{"mcpd/attest/attest_test.go TestOthers", "vmm/qemu/vsock_test.go TestVsock"}},
}

func TestDefects(t *testing.T) {
	if len(aegis) != 22 || len(capsem) != 12 {
		t.Errorf("%d and %d defects, not 22 and 12", len(aegis), len(capsem))
	}
	for _, d := range append(aegis, capsem...) {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			p := compiled(t, defectPolicy)
			for _, tr := range d.tries {
				tr.on(t, p)
			}
			for _, where := range d.where {
				file, test, _ := strings.Cut(where, " ")
				text, err := os.ReadFile(filepath.Join("..", "..", file))
				if err != nil || !strings.Contains(string(text), "\nfunc "+test+"(") {
					t.Errorf("%s is not there: %v", where, err)
				}
			}
			if len(d.tries)+len(d.where) == 0 {
				t.Error("is not tried")
			}
		})
	}
	p := compiled(t, defectPolicy)
	e := toolCall("slow.x", "")
	e.On, e.Answer = OnResponse, json.RawMessage(`"long"`)
	if d := p.Decide(e); d.Code != OutputSizeExceeded {
		t.Errorf("a long result: %+v", d)
	}
}
