package mcpd

import (
	"cmp"
	"context"
	"fmt"

	"hutch/mcpd/policy"
)

// decide asks the policy about a tools/call: own is the server's name for the
// tool, and known whether the server has it.
func (c *call) decide(ctx context.Context, server, own string, known bool) *Error {
	p := c.session.e.rules.Load().policy
	if p == nil {
		return failure(codeInternal, "there is no policy yet")
	}
	d := p.Decide(ctx, &policy.Request{
		VM: c.session.e.cfg.VM(), Process: c.process, Server: server, Tool: own, Method: c.message.method, Name: c.tool,
		Known: known, Args: c.message.params.get(pArguments),
	})
	c.verdict = verdict{denied: d.Action != policy.Allow, action: d.Action, rule: d.Rule, reason: d.Reason}
	if c.verdict.denied {
		return c.blocked()
	}
	return nil
}

// hides says whether a tool is not shown: the policy would refuse each call.
func (e *Endpoint) hides(it *item) bool {
	p := e.rules.Load().policy
	if p == nil {
		return false
	}
	d := p.Decide(e.ctx, &policy.Request{
		VM: e.cfg.VM(), Server: cmp.Or(it.upstream, it.Server), Tool: it.Original, Method: "tools/call", Name: it.Name, Known: true,
	})
	return d.Action != policy.Allow
}

// knows refuses what is of a server that does not exist for this VM.
func (c *call) knows(ctx context.Context, server string) *Error {
	if s, ok := c.session.e.rules.Load().servers[server]; ok && s.Enabled {
		return nil
	}
	if c.message.method == "tools/call" {
		return c.decide(ctx, server, "", false)
	}
	c.verdict = verdict{denied: true, action: policy.Block, rule: "unregistered", reason: fmt.Sprintf("server %q is not registered", server)}
	return c.blocked()
}

// blocked is the error for a call that was denied, and tells of it.
func (c *call) blocked() *Error {
	v := c.verdict
	c.session.e.alert("mcp.violation", fmt.Sprintf("process %s: %s %.200q: %s: %.400s", c.process, c.message.method, c.tool, v.rule, v.reason))
	return invalid("MCP request blocked by policy: %s: %s", v.rule, v.reason)
}
