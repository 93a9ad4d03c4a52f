package profiles

import (
	"fmt"
	"testing"
)

func TestChanges(t *testing.T) {
	const rule = "[security.rules.mcp.%s]\non = \"mcp.request\"\ndecision = \"%s\"\n"
	many := ""
	for i := range 10 {
		many += fmt.Sprintf("[mcpServers.s%d]\ncommand = \"x\"\n", i)
	}
	for _, tt := range []struct{ was, is, want string }{
		{"", "pids = 16", "not before the next start pids"},
		{"env.A = \"x\"\nram = \"1GiB\"", "env.A = \"y\"\nram = \"1024MiB\"\nsecurity.default = \"block\"", "default block, not before the next start env"},
		{"mcpServers.a.command = \"x\"\nmcpServers.b.command = \"x\"\nmcpServers.c.command = \"x\"", "mcpServers.b.command = \"x\"\nmcpServers.c.command = \"y\"\nmcpServers.d.command = \"x\"", "servers +d -a ~c"},
		{fmt.Sprintf(rule, "a", "block"), fmt.Sprintf(rule, "a", "allow") + fmt.Sprintf(rule, "b", "block"), "rules +security.rules.mcp.b ~security.rules.mcp.a"},
		{"", "security.default = \"block\"\nmcpServers.a.command = \"x\"", "servers +a, default block"},
		{"security.default = \"allow\"", "", ""},
		{"security.mode = \"observe\"\nsecurity.deny = [\"a\"]\ncmd.timeout = \"2s\"", "security.deny = [\"b\"]\nnetwork.allow = [\"*\"]\nsecurity.envelope.required = true\nsecurity.ask_timeout = \"1m\"\nsecurity.cedar.policies.a = \"permit(principal, action, resource);\"",
			"keys +network.allow +security.ask_timeout +security.cedar.policies +security.envelope.required -cmd.timeout ~security.deny, mode enforce"},
		{"[security.capabilities.a]\ntools = [\"x\"]", "[security.capabilities.a]\ntools = [\"*\"]", "capabilities ~security.capabilities.a"},
		{"", "storage.provider = \"s3\"\n[storage.s3]\nendpoint = \"http://x\"\nbucket = \"bucket\"\naccess_key = \"a\"\nsecret_key = \"the secret\"", "keys +storage.provider +storage.s3.access_key +storage.s3.bucket +storage.s3.endpoint +storage.s3.secret_key"},
		{"", many, "servers +s0 +s1 +s2 +s3 +s4 +s5 +s6 +s7 and 2 more"},
	} {
		was, err := Parse("p", []byte(tt.was))
		if err != nil {
			t.Fatal(err)
		}
		is, err := Parse("p", []byte(tt.is))
		if err != nil {
			t.Fatal(err)
		}
		if got := Changes(was, is); got != tt.want {
			t.Errorf("%s\nto %s\n got %s\nwant %s", tt.was, tt.is, got, tt.want)
		}
	}
}
