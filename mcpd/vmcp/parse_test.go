package vmcp

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
)

func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := parsed(t, string(text))
	a, f := c.Aggregation, c.Operational.Failures
	for _, tt := range []struct{ got, want any }{
		{c.Name + " " + c.Group, "office office"},
		{c.Backends[0].URL, "https://mcp.example.com/mcp"},
		{c.Strategy("github").Header.Ref(), "env:GITHUB_TOKEN"},
		{c.Strategy("search").Exchange.SecretRef(), "env:EXCHANGE_SECRET"},
		{c.Strategy("wiki").Type, "unauthenticated"},
		{c.Strategy("other").Type, "unauthenticated"},
		{a.Conflicts + a.ConflictsConfig.PrefixFormat + a.Visibility, "priority{workload}-deny"},
		{*a.Tools[0].Overrides["create_pr"].Annotations.OpenWorld, true},
		{c.Timeout("github"), 45 * time.Second},
		{c.Timeout("search"), 30 * time.Second},
		{f.Mode, "fail"},
		{fmt.Sprint(f.Threshold, f.Circuit.Enabled, f.Circuit.Threshold, time.Duration(f.Circuit.Timeout)), "2 true 4 1m30s"},
		{c.CompositeTools[0].Steps[0].Tool, "github.create_pr"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %v, want %v", tt.got, tt.want)
		}
	}
	wantNotes := []string{
		"line 15: incomingAuth.oidc", "line 18: incomingAuth.authz: kept and not used: it is NOT in force here", "line 64: aggregation.tools.1.toolConfigRef",
		"line 77: operational.failureHandling.statusReportingInterval", "line 89: compositeToolRefs", "line 90: metadata", "line 91: telemetry", "line 92: audit",
		"line 93: rateLimiting", "line 94: passthroughHeaders", "line 95: sessionStorage", "line 96: optimizer", "line 97: codeMode",
	}
	notes := c.Notes()
	for i, want := range wantNotes {
		if i >= len(notes) || !strings.HasPrefix(notes[i], want) {
			t.Fatalf("notes:\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(wantNotes, "\n"))
		}
	}
	strangers := c.Strangers(func(server string) bool { return server != "wiki" }, func(string) bool { return false }, func(string) bool { return true })
	if got := strings.Join(strangers, "\n"); got != "line 41: outgoingAuth.backends.wiki: the group has no server \"wiki\"\nline 65: aggregation.tools.2.workload: the group has no server \"wiki\"" {
		t.Errorf("strangers:\n%s", got)
	}
}

func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "{}", "name: x\n", "backends: [{name: a, url: 'https://x'}]"} {
		c := parsed(t, text)
		f := c.Operational.Failures
		got := fmt.Sprintln(c.Aggregation.Conflicts, c.Aggregation.ConflictsConfig.PrefixFormat, f.Mode, time.Duration(f.Interval), time.Duration(f.Timeout),
			f.Threshold, f.Circuit.Enabled, f.Circuit.Threshold, time.Duration(f.Circuit.Timeout), c.Timeout("x"), c.Notes())
		if got != "prefix {workload}_ best_effort 30s 10s 3 false 5 1m0s 0s []\n" {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// bomb is a YAML text of which each level stands for ten of the level below.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range levels {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String()
}

func TestRefused(t *testing.T) {
	tool := func(what string) string { return "aggregation:\n  tools:\n  - workload: a\n    " + what }
	strategy := func(what string) string { return "outgoingAuth:\n  default:\n    " + what }
	for _, tt := range []struct{ text, want string }{
		{"name: [", "line 1: did not find expected node content"},
		{"name: a\n---\nname: b\n", "there is a second document"},
		{"name: a\nname: b\n", "line 2: mapping key \"name\" already defined at line 1"},
		{"- a\n", "line 1: cannot unmarshal !!seq"},
		{"name: a\naggregation:\n  excludeAllTool: true\n", "line 3: nobody knows the key excludeAllTool"},
		{tool("filtr: [x]"), "line 4: nobody knows the key filtr"},
		{"compositeTools:\n- failureMode: abort\n  steps:\n  - onError: {action: retry, maxRetries: 3}\n", "line 2: nobody knows the key failureMode: onError of each step says what comes of its failure\nline 4: nobody knows the key maxRetries: it is retryCount"},
		{"# two\n---\napiVersion: v1\nkind: Group\n---\napiVersion: v1\nkind: Server\n", `line 4: a config is no resource of Kubernetes, as this "Group" is: take what a VirtualMCPServer has under spec.config`},
		{"compositeTools:\n- name: a\n  stpes: []\n", "line 3: nobody knows the key stpes"},
		{"metadata: {" + strings.Repeat("k: {}, ", 5001) + "}", "line 1: a table has 5001 keys, at most 5000"},
		{bomb(8), "stand for more than 200000 values"},
		{"metadata:\n" + "  " + strings.ReplaceAll(bomb(8), "\n", "\n  "), "stand for more than 200000 values"},
		{"metadata: &m {a: *m}\n", "more than 100 deep"},
		{"metadata: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "line 1: values are more than 100 deep"},
		{strings.Repeat(" ", MaxText+1), "at most 1048576"},

		{"incomingAuth: {type: magic}", `line 1: incomingAuth.type: "magic": it is one of oidc, local, anonymous`},
		{"backends: [{name: a__b, url: 'https://x', transport: sse}]", `line 1: backends.0.name: the server name "a__b" has "__" in it`},
		{"backends:\n- {name: a, url: 'https://x', transport: sse}\n- {name: a, url: 'https://x', transport: sse}", `line 3: backends.1.name: "a" is there twice`},
		{"backends: [{name: a, url: 'file:///etc/passwd', transport: sse}]", `line 1: backends.0.url: "file:///etc/passwd": want https://HOST/…`},
		{"backends: [{name: a, url: 'https://x', transport: stdio}]", `line 1: backends.0.transport: "stdio": it is one of sse, streamable-http`},
		{"backends: [{name: a, url: 'https://x', transport: sse, caBundlePath: /a/../b}]", "line 1: backends.0.caBundlePath"},

		{strategy("type: aws_sts"), "line 3: outgoingAuth.default.type: hutch does not do aws_sts"},
		{strategy("type: basic"), `line 3: outgoingAuth.default.type: "basic": it is one of`},
		{strategy("type: header_injection"), "line 2: outgoingAuth.default.headerInjection: header_injection needs it"},
		{strategy("type: header_injection\n    headerInjection: {headerName: 'a b', headerValue: x}"), `line 4: outgoingAuth.default.headerInjection.headerName: "a b" is no name`},
		{strategy("type: header_injection\n    headerInjection: {headerName: Mcp-Session-Id, headerValue: x}"), "headerName: Mcp-Session-Id cannot be set"},
		{strategy("type: header_injection\n    headerInjection: {headerName: A}"), "want one of headerValue and headerValueEnv"},
		{strategy("type: header_injection\n    headerInjection: {headerName: A, headerValue: \"x\\r\\nB: y\"}"), "a line's end"},
		{strategy("type: header_injection\n    headerInjection: {headerName: A, headerValue: 'secret:ghp_0123456789abcdefghij'}"), "headerValue: it has a secret where the name of one is to be: store it"},
		{strategy("type: header_injection\n    headerInjection: {headerName: A, headerValueEnv: ghp_0123456789abcdefghij}"), "headerValue: it has a secret where"},
		{strategy("type: token_exchange\n    tokenExchange: {tokenUrl: 'https://x/', clientSecret: 'secret:ghp_0123456789abcdefghij', subjectToken: x}"), "clientSecret: it has a secret where"},
		{strategy("type: token_exchange\n    tokenExchange: {tokenUrl: 'https://x/', subjectToken: 'env:ghp_0123456789abcdefghij'}"), "subjectToken: it has a secret where"},
		{strategy("type: token_exchange\n    tokenExchange: {tokenUrl: 'https://u:p@x/'}"), "line 4: outgoingAuth.default.tokenExchange.tokenUrl"},

		{"aggregation: {conflictResolution: chance}", `line 1: aggregation.conflictResolution: "chance": it is one of prefix, priority, manual`},
		{"aggregation: {conflictResolution: priority}", "line 1: aggregation.conflictResolutionConfig: priority needs priorityOrder"},
		{"aggregation: {conflictResolutionConfig: {priorityOrder: [a, b, a]}}", `priorityOrder.2: "a" is there twice`},
		{"aggregation: {conflictResolutionConfig: {prefixFormat: '{workload}:'}}", "prefixFormat"},
		{"aggregation: {defaultToolVisibility: maybe}", `"maybe": it is one of allow, deny`},
		{tool("filter: []"), "line 4: aggregation.tools.0.filter: it is empty"},
		{tool("overrides: {x: {}}"), "line 4: aggregation.tools.0.overrides.x: it says nothing"},
		{tool("overrides: {x: {name: 'a.b'}}"), `line 4: aggregation.tools.0.overrides.x.name: "a.b": clients take`},
		{tool("overrides:\n      x: {name: z}\n      y: {name: z}"), `line 6: aggregation.tools.0.overrides.y.name: z is the name of "x", too`},
		{tool("\n  - workload: a"), `line 5: aggregation.tools.1.workload: "a" is there twice`},
		{"aggregation: {tools: [{filter: [a]}]}", "line 1: aggregation.tools.0.workload: a server needs a name"},

		{"operational: {timeouts: {default: -1s}}", "line 1: operational.timeouts.default: -1s: want 0s to 24h0m0s"},
		{"operational: {timeouts: {default: 30}}", `line 1: "30" is no duration`},
		{"operational: {timeouts: {perWorkload: {a: 48h}}}", "want 1ms to 24h0m0s"},
		{"operational: {failureHandling: {healthCheckInterval: 5s, healthCheckTimeout: 6s}}", "want less than healthCheckInterval, 5s"},
		{"operational: {failureHandling: {partialFailureMode: bestEffort}}", `"bestEffort": it is one of fail, best_effort`},
		{"operational: {failureHandling: {circuitBreaker: {timeout: 10ms}}}", "circuitBreaker.timeout: 10ms: want 1s to 24h0m0s"},
		{"operational: {failureHandling: {unhealthyThreshold: -1}}", "unhealthyThreshold: -1: want 1 to 1000"},
		{"compositeTools: [{name: a}, {name: a}]", `line 1: compositeTools.1.name: "a" is there twice`},
	} {
		_, err := Parse([]byte(tt.text))
		if !errors.Is(err, fs.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%.100s: %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

// TestFaults tells of all that is wrong at once, in the order of the text.
func TestFaults(t *testing.T) {
	_, err := Parse([]byte("operational:\n  logLevel: loud\naggregation:\n  conflictResolution: chance\n  defaultToolVisibility: maybe\n"))
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "line 2:") || !strings.Contains(lines[1], "line 4:") || !strings.Contains(lines[2], "line 5:") {
		t.Errorf("%v", err)
	}
}

// FuzzParse reads any text within bounds, and what it takes names tools by the rules.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, text := range configs {
		f.Add([]byte(text))
	}
	f.Add([]byte(bomb(3)))
	f.Add([]byte("aggregation: &a {tools: [{<<: *a, workload: b}]}"))
	items := offers("a.x", "b.x", "a.b/c", "a_b.c", "github.create_pr")
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		c.Notes()
		c.Strangers(func(string) bool { return false }, func(string) bool { return true }, func(string) bool { return false })
		c.Names(items)
		got, _ := c.Arrange(wire.Tools, items)
		if strings.Contains(c.Aggregation.ConflictsConfig.PrefixFormat, ".") {
			return // whose dots are in the names
		}
		checkNames(t, wire.Tools, got)
	})
}
