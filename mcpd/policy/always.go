package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
)

// Always returns the rule that allows what e wants from now on, where the rule
// called asked asks about it: the tool, or, if exact, the tool with just these
// arguments. It is tried right before the one that asks, so that what is
// refused before that is refused still.
func (p *Policy) Always(e *Event, asked string, exact bool) (Rule, error) {
	r := Rule{On: e.On, Decision: Allow, Priority: PriorityUsual, Answers: RuleDefault}
	if at := slices.IndexFunc(p.rules, func(r *rule) bool { return r.ID == asked && r.Decision == Ask }); at >= 0 {
		r.Answers = asked
		if p.rules[at].Layer == LayerCorp {
			return r, fmt.Errorf("%w: %s is corp's, and asks each time", fs.ErrPermission, asked)
		}
	} else if asked != RuleDefault {
		return r, fmt.Errorf("%w: rule %s does not ask any more: answer allow, or deny", fs.ErrNotExist, asked)
	}
	is, name := e.conditions(exact)
	if is == nil {
		return r, fmt.Errorf("%w: of %s nothing can be allowed always", fs.ErrUnsupported, e.On)
	}
	r.If = strings.Join(is, " && ")
	r.ID = "security.rules.asks." + notInName.ReplaceAllString(name, "-")
	return r, r.allows(e)
}

// notInName are the letters that a rule's name is made without.
var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// conditions are those that hold for what e wants, and what the rule with them
// is called. Nil: there are none.
func (e *Event) conditions(exact bool) (is []string, name string) {
	text := func(root, value string) string { return root + " == " + strconv.Quote(value) }
	var more []string
	switch {
	case e.On == OnRequest && e.Name != "":
		is, name = []string{text("mcp.request.method", e.Method), text("mcp.request.name", e.Name)}, e.Name
		if e.Arranged { // the name can be another tool's tomorrow
			is = append(is, text("mcp.request.server_name", e.Server), text("mcp.request.tool_name", e.Tool))
		}
		more = []string{"mcp.request.arguments == " + literalOf(e.Args)}
	case e.On == OnHTTP:
		is, name = []string{text("http.host", e.Host), fmt.Sprintf("http.port == %d", e.Port)}, e.Host
		more = []string{text("http.method", e.Method), text("http.path", e.Path)}
	case e.On == OnFile:
		is, name = []string{text("file.operation", e.Operation)}, "file-"+e.Operation
		more = []string{text("file.path", e.Path)}
	case e.On == OnExec:
		words, _ := json.Marshal(e.Words)
		is, name = []string{text("exec.command", e.Command)}, "exec-"+e.Command
		more = []string{"exec.args == " + literalOf(words)}
	}
	if exact && is != nil {
		is = append(is, more...)
	}
	return is, name
}

// allows says whether the rule does allow e. It is not taken on trust: what
// conditions see need not be what was sent, as of numbers too large.
func (r *Rule) allows(e *Event) error {
	alone := *r
	alone.Answers = ""
	p, err := New(Config{Default: Block, Rules: []Rule{alone}})
	if err != nil {
		return fmt.Errorf("%w: no rule can say that: %w", fs.ErrUnsupported, err)
	}
	again := Event{
		On: e.On, Method: e.Method, Server: e.Server, Tool: e.Tool, Name: e.Name, Known: true, Args: e.Args,
		Operation: e.Operation, Path: e.Path, Command: e.Command, Words: e.Words, Host: e.Host, Port: e.Port, Scheme: e.Scheme,
		Trial: true,
	}
	if d := p.Decide(&again); d.Rule != r.ID {
		return fmt.Errorf("%w: no rule can say that", fs.ErrUnsupported)
	}
	return nil
}

// literalOf returns JSON as CEL has it; of no JSON, the empty table.
func literalOf(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || v == nil {
		return "{}"
	}
	return string(appendLiteral(nil, v))
}

func appendLiteral(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(strconv.AppendQuote(b, name), ": "...)
			b = appendLiteral(b, v[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendLiteral(b, e)
		}
		return append(b, ']')
	case string:
		return strconv.AppendQuote(b, v)
	case json.Number:
		switch n := numberOf(string(v)).(type) {
		case int64:
			return strconv.AppendInt(b, n, 10)
		case uint64:
			return append(strconv.AppendUint(b, n, 10), 'u')
		}
		return append(b, v...)
	}
	if v == nil {
		return append(b, "null"...)
	}
	return fmt.Append(b, v) // true or false
}
