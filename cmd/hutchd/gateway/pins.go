package gateway

import (
	"context"
	"fmt"
	"strings"

	"hutch/mcpd"
	"hutch/mcpd/ledger"
	"hutch/mcpd/policy"
	"hutch/mcpd/redact"
)

// pinsFolder has what was approved of servers' tools, in the folder of whose it is.
const pinsFolder = "pins"

// Approve approves a tool, or all of a server, as Endpoint.Approve has it. Each tool
// that it lets through is recorded with who approved it. A name with a secret in it is
// given as it is shown.
func (g *Gateway) Approve(ctx context.Context, who mcpd.Caller, name, digest string) error {
	if strings.Contains(name, redact.Mark) {
		for _, it := range g.MCP.Held() {
			if g.Known(it.Name) == name {
				name = it.Name
				break
			}
		}
	}
	done, err := g.MCP.Approve(ctx, name, digest)
	for _, a := range done {
		e := g.NewEvent("mcp.approved", fmt.Sprintf("%.200q, digest %s, by %s", a.Name, a.Digest, who.Principal))
		e.Rule = policy.RulePin
		g.Tell(ledger.Security, e)
	}
	return err
}
