package policy

import (
	"cmp"
	"fmt"
	"strings"

	"hutch/aggd/jsonrpc"
)

// listRules returns what servers' lists of tools are as rules. They only
// block: what a list allows goes on to the rules that follow.
func listRules(lists []List) (rules []*rule) {
	for _, l := range lists {
		if len(l.Blocked) > 0 {
			rules = append(rules, l.rule("blocked_tools", l.Blocked, func(tool string) string {
				if at := matchAny(l.Blocked, tool, true); at != "" {
					return fmt.Sprintf("tool %q of server %s is blocked by %q", tool, l.Server, at)
				}
				return ""
			}))
		}
		if l.Allowed != nil {
			r := l.rule("allowed_tools", l.Allowed, func(tool string) string {
				if matchAny(l.Allowed, tool, false) == "" {
					return fmt.Sprintf("tool %q is not among the allowed tools of server %s", tool, l.Server)
				}
				return ""
			})
			r.unless, r.code = true, ToolNotAllowed
			rules = append(rules, r)
		}
	}
	return rules
}

// rule returns the rule that a list is, with the test that says why it blocks
// a tool.
func (l *List) rule(name string, list []string, blocks func(tool string) string) *rule {
	return &rule{
		Rule: Rule{ID: l.id(name), Layer: l.Layer, On: OnRequest, Decision: Block, Priority: PriorityLists, Server: l.Server},
		list: list,
		match: func(e *Event) string {
			if e.Method != "tools/call" {
				return ""
			}
			return blocks(ownTool(e))
		},
	}
}

// ownTool returns the name that the tool of a call has on its server.
func ownTool(e *Event) string {
	if e.Tool != "" {
		return e.Tool
	}
	return strings.TrimPrefix(e.Name, jsonrpc.Name(e.Server, ""))
}

// id returns the name of a list's rule: where in the profile it stands.
func (l *List) id(list string) string { return "mcpServers." + l.Server + "." + list }

// listOf returns the rule of the list that let a call pass, "" if there is none.
func (p *Policy) listOf(e *Event) string {
	if e.On != OnRequest || e.Method != "tools/call" {
		return ""
	}
	return p.allowed[e.Server]
}

// unregistered blocks a call of a tool that there is not.
func unregistered(e *Event) string {
	if e.Known || e.Method != "tools/call" {
		return ""
	}
	return fmt.Sprintf("tool %q is not registered", cmp.Or(e.Name, e.Tool))
}

// matchAny returns the first pattern that tool matches, or "".
func matchAny(patterns []string, tool string, block bool) string {
	for _, p := range patterns {
		if match(p, tool, block) {
			return p
		}
	}
	return ""
}

// borders end a segment of a tool's name.
const borders = "._-/:"

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
	border := strings.IndexByte(borders, head[len(head)-1]) >= 0
	return (border || block) && len(tool) > len(head) && strings.HasPrefix(tool, head)
}
