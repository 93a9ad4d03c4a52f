// Package policy decides whether an MCP call may go on. A Policy is made from
// the servers of a profile and does not change; whoever reloads a profile
// makes another.
package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/fs"
)

// What a Decision says to do.
const (
	Allow = "allow"
	Block = "block"
)

// The rules that are not a list of a server's.
const (
	ruleDefault      = "default"
	ruleUnregistered = "unregistered"
)

// A Request is what a Policy decides: what a guest asks of a server, or a
// server of a guest, and then what came of it. Who asks is known by the
// connection, but for Process, which is what the guest says.
type Request struct {
	VM      string
	Process string
	Server  string
	Tool    string // the tool's own name, without the server's; or a prompt's, or a resource's
	Method  string
	Name    string // the tool as the guest named it
	Known   bool   // whether there is such a tool
	Args    []byte
	Asks    bool   // the server asks the guest: Args are all its params
	Answer  []byte // when what came of it is judged: the result, or the error object
}

// A Decision tells what to do with a call, by which rule, and why.
type Decision struct {
	Action string
	Rule   string
	Reason string // empty where nothing needs to be said
}

// A Rule holds the lists of one server. Names are the tools' own; "*" is every
// tool, and a * at the end, after the border of a segment, every tool that goes
// on from there.
type Rule struct {
	Server  string
	Allowed []string // nil: all
	Blocked []string
}

// A Policy decides calls.
type Policy struct {
	rules map[string][]Rule // by server
}

// New returns the policy of a profile's servers. What no rule speaks of is
// allowed. Of several rules for one server each must allow a call.
func New(servers []Rule) *Policy {
	p := &Policy{rules: make(map[string][]Rule)}
	for _, r := range servers {
		p.rules[r.Server] = append(p.rules[r.Server], r)
	}
	return p
}

// Decide decides a request. Only tools/call is ever blocked. The lists are
// asked first: their reason is the better one, whether there is such a tool or
// not.
func (p *Policy) Decide(_ context.Context, r *Request) Decision {
	d := Decision{Action: Allow, Rule: ruleDefault}
	if r.Method != "tools/call" || r.Asks || r.Answer != nil {
		return d
	}
	tool := r.Tool
	if tool == "" {
		tool = strings.TrimPrefix(r.Name, jsonrpc.Name(r.Server, ""))
	}
	for _, rule := range p.rules[r.Server] {
		if at := matchAny(rule.Blocked, tool, true); at != "" {
			return Decision{Block, rule.name("blocked_tools"), fmt.Sprintf("tool %q of server %s is blocked by %q", tool, r.Server, at)}
		}
		if rule.Allowed == nil {
			continue
		}
		if matchAny(rule.Allowed, tool, false) == "" {
			return Decision{Block, rule.name("allowed_tools"), fmt.Sprintf("tool %q is not among the allowed tools of server %s", tool, r.Server)}
		}
		d.Rule = rule.name("allowed_tools")
	}
	if !r.Known {
		return Decision{Block, ruleUnregistered, fmt.Sprintf("tool %q is not registered", cmp.Or(r.Name, r.Tool))}
	}
	return d
}

// Text returns the policy as lines for people to read: the rule, what it does,
// and for the lists of servers the tools, quoted as rc does.
func (p *Policy) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", ruleUnregistered, Block)
	for _, server := range slices.Sorted(maps.Keys(p.rules)) {
		for _, r := range p.rules[server] {
			writeList(&b, r.name("blocked_tools"), Block, r.Blocked)
			writeList(&b, r.name("allowed_tools"), Allow, r.Allowed)
		}
	}
	fmt.Fprintf(&b, "%s %s\n", ruleDefault, Allow)
	return b.String()
}

// writeList writes a list, also one that is there and empty.
func writeList(b *strings.Builder, rule, action string, tools []string) {
	if tools == nil || len(tools) == 0 && action == Block {
		return
	}
	b.WriteString(fs.QuoteLine(rule) + " " + action)
	for _, t := range tools {
		b.WriteString(" " + fs.QuoteLine(t))
	}
	b.WriteByte('\n')
}

// name returns the rule's name: where in the profile it stands.
func (r *Rule) name(list string) string { return "mcpServers." + r.Server + "." + list }

// matchAny returns the first pattern that tool matches, or "".
func matchAny(patterns []string, tool string, block bool) string {
	for _, p := range patterns {
		if match(p, tool, block) {
			return p
		}
	}
	return ""
}

// match tells whether tool is what pattern says. A * that is not on the border
// of a segment is a mistake: it blocks what it may mean and allows nothing.
func match(pattern, tool string, block bool) bool {
	if pattern == "*" || pattern == tool {
		return pattern != ""
	}
	head, ok := strings.CutSuffix(pattern, "*")
	if !ok || head == "" {
		return false
	}
	border := strings.IndexByte("._-/:", head[len(head)-1]) >= 0
	return (border || block) && len(tool) > len(head) && strings.HasPrefix(tool, head)
}
