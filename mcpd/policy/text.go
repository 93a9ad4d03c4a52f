package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/fs"
)

// writeChecks writes what is tried before the rules, for people to read.
func (p *Policy) writeChecks(b *strings.Builder) {
	if p.observe {
		b.WriteString("security.mode observe\n")
	}
	if p.sealed.Required {
		b.WriteString("security.envelope block requests without an envelope\n")
	}
	for _, name := range slices.Sorted(maps.Keys(p.runnable)) {
		b.WriteString(RuleCommands + " allow")
		for _, word := range append([]string{name}, p.runnable[name]...) {
			b.WriteString(" " + fs.QuoteLine(word))
		}
		b.WriteString("\n")
	}
	if p.runnable != nil {
		b.WriteString(RuleCommands + " block all other commands\n")
	}
	if len(p.denied) > 0 {
		b.WriteString(ruleDeny + " block")
		for _, d := range p.denied {
			b.WriteString(" " + fs.QuoteLine(d.text))
		}
		b.WriteString("\n")
	}
	for _, c := range p.capabilities {
		fmt.Fprintf(b, "%s allow%s\n", fs.QuoteLine(c.Name), c.text())
	}
	if len(p.capabilities) > 0 {
		b.WriteString(ruleCapabilities + " block what none of them allows\n")
	}
	if p.cedar != nil {
		b.WriteString(ruleCedar + " block what none of")
		for _, name := range p.cedar.names() {
			b.WriteString(" " + fs.QuoteLine(name))
		}
		b.WriteString(" permits, or one forbids\n")
	}
}

// text returns what of the capability goes on after its name.
func (c *capability) text() string {
	var b strings.Builder
	list := func(name string, words []string) {
		if words == nil {
			return
		}
		b.WriteString(name)
		for _, w := range words {
			b.WriteString(" " + fs.QuoteLine(w))
		}
	}
	list("", c.Tools)
	list(" paths", c.Paths)
	list(" domains", c.Domains)
	list(" commands", c.Commands)
	for _, l := range c.limited {
		list(" subcommands "+fs.QuoteLine(l.name), append([]string{}, l.firsts...))
	}
	if c.Rate != "" {
		b.WriteString(" rate " + c.Rate)
	}
	if c.MaxResponse > 0 {
		fmt.Fprintf(&b, " max_response %d", c.MaxResponse)
	}
	if c.MaxConcurrent > 0 {
		fmt.Fprintf(&b, " max_concurrent %d", c.MaxConcurrent)
	}
	return b.String()
}
