package profiles

import (
	"errors"
	"maps"
	"slices"

	"hutch/mcpd/policy"
)

// decodeRules reads the table of rules, by family and name.
func decodeRules(p *Profile, families map[string]any, at key) error {
	for _, family := range slices.Sorted(maps.Keys(families)) {
		at := at.with(family)
		rules, ok := families[family].(map[string]any)
		if !ok {
			return at.want("a table of rules")
		}
		for _, name := range slices.Sorted(maps.Keys(rules)) {
			at := at.with(name)
			says, ok := rules[name].(map[string]any)
			if !ok {
				return at.want("a table")
			}
			r := policy.Rule{ID: at.String(), Priority: policy.Usual}
			if err := decodeTable(target{r: &r}, says, at, ofRule); err != nil {
				return err
			}
			p.Security.Rules = append(p.Security.Rules, r)
		}
	}
	return nil
}

// compile compiles the policy. Its error is the fault of a key.
func (p *Profile) compile() (err error) {
	c := p.Security
	for _, s := range p.Servers {
		c.Lists = append(c.Lists, policy.List{Server: s.Name, Layer: s.Layer, Allowed: s.Allowed, Blocked: s.Blocked})
	}
	p.Policy, err = policy.New(c)
	var wrong *policy.Fault
	if errors.As(err, &wrong) {
		at, _ := parseKey(wrong.Of)
		if wrong.Key != "" {
			at = at.with(wrong.Key)
		}
		return at.faultf("%s %s", at, wrong.Text)
	}
	return err
}
