package mcpd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/mcpd/policy"
)

// limitedBy returns a policy of capabilities.
func limitedBy(t *testing.T, list ...policy.Capability) *policy.Policy {
	t.Helper()
	return compiled(t, policy.Config{Capabilities: list})
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, testServers("one"))
	os.WriteFile(filepath.Join(st.work, "f"), []byte("hello"), 0o644)
	os.WriteFile(filepath.Join(st.work, "big"), []byte(strings.Repeat("x", 5000)), 0o644)
	files := policy.Capability{Name: "files", Tools: []string{"file_read"}, Paths: []string{"/workspace"}, Rate: "3/1h", MaxResponse: 4000}
	waits := policy.Capability{Name: "waits", Tools: []string{"one__wait", "one__echo"}, MaxConcurrent: 1}
	reload := func() {
		t.Helper()
		if err := st.Reload(t.Context(), testServers("one"), limitedBy(t, files, waits)); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	g := st.hello(t, 1, `{}`)
	refused := func(params, text, data string) {
		t.Helper()
		m := g.do("tools/call", params)
		if m.Error == nil || m.Error.Code != jsonrpc.CodeInvalid || !strings.Contains(m.Error.Message, text) || !strings.Contains(string(m.Error.Data), data) {
			t.Errorf("%s: %s %+v", params, m.Result, m.Error)
		}
	}
	if list := string(g.ok("tools/list", "")); !strings.Contains(list, `"file_read"`) || !strings.Contains(list, `"one__wait"`) || strings.Contains(list, `"one__big"`) || strings.Contains(list, `"file_write"`) {
		t.Errorf("tools: %s", list)
	}
	refused(`{"name":"one__big"}`, "no capability is for tool", `"violation":"ToolNotAllowed"`)
	refused(`{"name":"file_read","arguments":{"path":"/etc/passwd"}}`, `"/etc/passwd"`, `"violation":"PathOutsideBoundary"`)
	refused(`{"name":"file_read"}`, "called path", `"violation":"MissingRequiredArgument"`)

	g.ok("tools/call", readFile)
	refused(`{"name":"file_read","arguments":{"path":"big"}}`, "more than 4000", `"code":2006`)
	g.ok("tools/call", readFile)
	refused(readFile, "try again in", `"class":"recoverable"`)
	files.Paths = append(files.Paths, "/tmp")
	reload()
	refused(readFile, "try again in", `"code":2005,"name":"RATE_LIMIT_EXCEEDED","violation":"RateLimitExceeded","retry_after_ms":`)

	const echo = `{"name":"one__echo"}`
	const wait = `{"name":"one__wait","_meta":{"progressToken":1}}`
	g.send(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":` + wait + `}`)
	g.note("notifications/progress")
	refused(echo, "1 calls are under way", `"violation":"ConcurrentExecLimitExceeded"`)
	reload()
	refused(echo, "1 calls are under way", `"class":"recoverable"`)
	g.notify("notifications/cancelled", `{"requestId":"x"}`)
	await(t, "the call has ended", func() bool { return g.do("tools/call", echo).Error == nil })
}

// As long as there is no policy nothing is called.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	st.rules.Store(newRules(nil, nil))
	st.dial(t, 1).fails("tools/call", readFile, jsonrpc.CodeInternal, "there is no policy yet")
}

// TestTwins has two tools that do the same: what is said of the one by its name, or of
// files, is about both.
func TestTwins(t *testing.T) {
	t.Parallel()
	keep := policy.Rule{ID: "keep", On: policy.OnFile, If: `file.operation == "delete"`, Decision: policy.Block, Priority: policy.PriorityUsual}
	for _, cfg := range []policy.Config{{Deny: []string{"fs.delete"}}, {Deny: []string{"file_delete"}}, {Rules: []policy.Rule{keep}}} {
		st := newSite(t, nil, nil)
		if err := st.Reload(t.Context(), nil, compiled(t, cfg)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(st.work, "f")
		os.WriteFile(file, []byte("hello"), 0o644)
		g := st.hello(t, 1, `{}`)
		for _, tool := range []string{"fs.delete", "file_delete"} {
			m := g.do("tools/call", `{"name":"`+tool+`","arguments":{"path":"f"}}`)
			if m.Error == nil {
				t.Errorf("%+v: %s: %s", cfg, tool, m.Result)
			}
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%+v: the file: %v", cfg, err)
		}
	}
}

// A capability for a folder is not for what links in the folder lead to.
func TestCapabilityLinks(t *testing.T) {
	t.Parallel()
	st := newSite(t, nil, nil)
	os.Mkdir(filepath.Join(st.work, "ok"), 0o755)
	os.Symlink("..", filepath.Join(st.work, "ok", "up"))
	p := limitedBy(t, policy.Capability{Name: "files", Tools: []string{"fs.*"}, Paths: []string{"/workspace/ok"}})
	if err := st.Reload(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	g := st.hello(t, 1, `{}`)
	g.ok("tools/call", `{"name":"fs.write","arguments":{"path":"ok/f","content":"x"}}`)
	m := g.do("tools/call", `{"name":"fs.write","arguments":{"path":"ok/up/f","content":"x"}}`)
	if m.Error == nil || !strings.Contains(m.Error.Message, `"/workspace/f"`) || !strings.Contains(string(m.Error.Data), `"violation":"PathOutsideBoundary"`) {
		t.Errorf("through a link: %s %+v", m.Result, m.Error)
	}
	if _, err := os.Stat(filepath.Join(st.work, "f")); err == nil {
		t.Error("the file was written")
	}
}
