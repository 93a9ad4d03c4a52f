package profiles

import (
	"errors"
	"maps"
	"slices"

	"hutch/aggd/guard"
	"hutch/mcpd/policy"
)

// decodeFamilies reads the tables of rules, by family and name.
func decodeFamilies(p *Profile, families map[string]any, at key) error {
	for _, family := range slices.Sorted(maps.Keys(families)) {
		at := at.with(family)
		rules, ok := families[family].(map[string]any)
		if !ok {
			return at.want("a table of rules")
		}
		if err := decodeRules(p, rules, at, ofRule, ""); err != nil {
			return err
		}
	}
	return nil
}

// decodeRules reads a table of rules, whose keys Keys calls keys and their own
// name. They decide what is asked of a server, "" for all.
func decodeRules(p *Profile, rules map[string]any, at key, keys, server string) error {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		at := at.with(name)
		says, ok := rules[name].(map[string]any)
		if !ok {
			return at.want("a table")
		}
		if says["if"] == "" {
			return at.with("if").faultf("%s is empty: leave it out where the rule always holds", at.with("if"))
		}
		r := policy.Rule{ID: at.String(), Priority: policy.PriorityUsual, Server: server}
		if err := decodeTable(target{r: &r}, says, at, keys); err != nil {
			return err
		}
		p.Security.Rules = append(p.Security.Rules, r)
	}
	return nil
}

// compile compiles the policy. Its error is the fault of a key.
func (p *Profile) compile() (err error) {
	c := p.Security
	switch {
	case !p.Commands.Enabled: // then none runs
		c.Commands = nil
	case c.Commands == nil:
		c.Commands = map[string][]string{}
	}
	for _, s := range p.Servers {
		c.Lists = append(c.Lists, policy.List{Server: s.Name, Layer: s.Layer, Allowed: s.Allowed, Blocked: s.Blocked})
	}
	if c.Hosts, err = guard.ParseHosts(p.Network.Allow, p.Network.Block); err != nil {
		return err
	}
	p.Policy, err = policy.New(c)
	var wrong *policy.Fault
	if errors.As(err, &wrong) {
		at, _ := parseKey(wrong.Of)
		if wrong.Key != "" {
			at = at.with(wrong.Key)
		}
		f := at.faultf("%s %s", at, wrong.Text)
		f.down = wrong.Line
		return f
	}
	return err
}
