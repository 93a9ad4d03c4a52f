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
		{"", "pids = 16", ""},
		{"mcpServers.a.command = \"x\"\nmcpServers.b.command = \"x\"\nmcpServers.c.command = \"x\"", "mcpServers.b.command = \"x\"\nmcpServers.c.command = \"y\"\nmcpServers.d.command = \"x\"", "servers +d -a ~c"},
		{fmt.Sprintf(rule, "a", "block"), fmt.Sprintf(rule, "a", "allow") + fmt.Sprintf(rule, "b", "block"), "rules +security.rules.mcp.b ~security.rules.mcp.a"},
		{"", "security.default = \"block\"\nmcpServers.a.command = \"x\"", "servers +a, default block"},
		{"security.default = \"allow\"", "", ""},
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
