package profiles

import (
	"maps"
	"slices"

	"hutch/mcpd/policy"
)

// decodeCapabilities reads the table of capabilities, by name.
func decodeCapabilities(p *Profile, table map[string]any, at key) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := at.with(name)
		says, ok := table[name].(map[string]any)
		if !ok {
			return at.want("a table")
		}
		c := policy.Capability{Name: at.String()}
		if err := decodeTable(target{capability: &c}, says, at, ofCapability); err != nil {
			return err
		}
		p.Security.Capabilities = append(p.Security.Capabilities, c)
	}
	return nil
}

// decodeLists reads a table of lists of texts.
func decodeLists(lists *map[string][]string, v any, at key) error {
	table, ok := v.(map[string]any)
	if !ok {
		return at.want(`a table of lists like git = ["status", "diff"]`)
	}
	*lists = make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if (*lists)[name], ok = textsOf(table[name]); !ok {
			return at.with(name).want(`a list like ["a", "b"]`)
		}
	}
	return nil
}
