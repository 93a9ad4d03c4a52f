package mcpd

import (
	"encoding/json"
	"strings"
	"testing"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/mcpd/policy"
)

// TestGroup serves servers without a VM: there is an aggregator and a ledger,
// and no tool that needs more.
func TestGroup(t *testing.T) {
	t.Parallel()
	bare := func(cfg *Config) { cfg.VM, cfg.Work = nil, "" }
	st := newSite(t, bare, testServers("one", "two"), policy.List{Server: "two", Blocked: []string{"die"}})
	g := st.hello(t, 2, `{"sampling":{}}`)
	var list struct{ Tools []struct{ Name string } }
	json.Unmarshal(g.ok("tools/list", ""), &list)
	for _, tool := range list.Tools {
		if !strings.HasPrefix(tool.Name, "one__") && !strings.HasPrefix(tool.Name, "two__") {
			t.Errorf("there is a tool %s", tool.Name)
		}
	}
	if len(list.Tools) != 2*16-1 || len(st.Items(wire.Tools)) != len(list.Tools) {
		t.Errorf("%d tools listed, the tree shows %d", len(list.Tools), len(st.Items(wire.Tools)))
	}
	g.ok("tools/call", `{"name":"one__echo"}`)
	g.ok("resources/read", `{"uri":"capsem://two/test://two/one"}`)
	g.fails("tools/call", `{"name":"two__die"}`, jsonrpc.CodeInvalid, "blocked_tools")
	for _, tool := range []string{"file_read", "dir_list", "snapshots_list"} {
		g.fails("tools/call", `{"name":"`+tool+`","arguments":{"path":"/etc/passwd"}}`, jsonrpc.CodeParams, "tool not found: "+tool)
	}
	if _, err := st.Call(t.Context(), Caller{Process: "door"}, "one__echo", nil); err != nil {
		t.Error(err)
	}
	rows := st.lines(9)
	if r := rows[2]; r["server_name"] != "one" || r["tool_name"] != "one__echo" || r["decision"] != "allowed" || r["outcome"] != "ok" {
		t.Errorf("record: %v", r)
	}
	if r := rows[5]; r["server_name"] != nil || r["tool_name"] != "file_read" || r["decision"] != "denied" || r["policy_rule"] != "unregistered" {
		t.Errorf("record: %v", r)
	}
}
