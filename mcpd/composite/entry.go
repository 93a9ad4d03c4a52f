package composite

import (
	"encoding/json"
	"fmt"
)

// Entry returns the tool as MCP's tools/list has it. hints returns the annotations
// of a tool that the steps call, nil if it has none or is not known. Those of the
// composite tool follow from them, and what its definition says comes on top: but
// it is an error if that makes the tool look safer than those that it calls.
func (t *Tool) Entry(hints func(tool string) *Annotations) (json.RawMessage, error) {
	floor, risky := t.floor(hints)
	a, err := merge(floor, risky, t.annotations)
	if err != nil {
		return nil, fmt.Errorf("composite tool %q: annotations: %w", t.name, err)
	}
	entry := map[string]any{"name": t.name, "description": t.description, "inputSchema": t.parameters}
	if t.output != nil {
		entry["outputSchema"] = t.output.schema()
	}
	if a != (Annotations{}) {
		entry["annotations"] = a
	}
	return marshal(entry)
}

// A risk is the tool for which a hint may not look safer.
type risk struct{ readOnly, destructive, openWorld string }

// floor returns the annotations that follow from those of the tools that are
// called: as safe as the least safe of them. What one does not say counts as unsafe,
// as MCP has it. It is nil where no tool is called.
func (t *Tool) floor(hints func(tool string) *Annotations) (*Annotations, risk) {
	var why risk
	tools := t.Tools()
	if len(tools) == 0 {
		return nil, why
	}
	for _, tool := range tools {
		of := hints(tool)
		if of == nil {
			of = &Annotations{}
		}
		if of.ReadOnly == nil || !*of.ReadOnly {
			why.readOnly = tool
		}
		if of.Destructive == nil || *of.Destructive {
			why.destructive = tool
		}
		if of.OpenWorld == nil || *of.OpenWorld {
			why.openWorld = tool
		}
	}
	readOnly, destructive, openWorld := why.readOnly == "", why.destructive != "", why.openWorld != ""
	return &Annotations{ReadOnly: &readOnly, Destructive: &destructive, OpenWorld: &openWorld}, why
}

// merge lays what is said over what follows from the tools that are called.
func merge(floor *Annotations, why risk, said *Annotations) (Annotations, error) {
	var a Annotations
	if floor != nil {
		a = *floor
	}
	if said == nil {
		return a, nil
	}
	for _, hint := range []struct {
		name string
		said *bool
		safe bool
		tool string // the one that is not safe
		to   **bool
	}{
		{"readOnlyHint", said.ReadOnly, true, why.readOnly, &a.ReadOnly},
		{"destructiveHint", said.Destructive, false, why.destructive, &a.Destructive},
		{"openWorldHint", said.OpenWorld, false, why.openWorld, &a.OpenWorld},
		{"idempotentHint", said.Idempotent, true, "", &a.Idempotent},
	} {
		if hint.said == nil {
			continue
		}
		if *hint.said == hint.safe && hint.tool != "" {
			return a, fmt.Errorf("%s: %t is safer than what the tool %q says of itself", hint.name, hint.safe, hint.tool)
		}
		*hint.to = hint.said
	}
	a.Title = said.Title
	return a, nil
}
