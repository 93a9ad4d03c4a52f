package mcpd

import (
	"encoding/json"
	"errors"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
	"hutch/mcpd/dispatch"
	"hutch/mcpd/policy"
)

// The rules that no profile has, by which the tools that are hutch's own refuse what
// they are asked for; ruleTraversal is that of files.
const (
	ruleFolder  = "cwd"
	rulePrivate = "private" // as the proxy's
)

// refusedInside records a call that was allowed and that its tool, one of hutch's own, then
// refused: it is denied, and told of, as a call that is refused before its tool runs. The
// guest gets the tool's own answer.
func (c *call) refusedInside(result json.RawMessage) *Error {
	d := c.ownRefusal(result)
	if d == nil || c.verdict.denied {
		return nil
	}
	c.block(c.question(nil), *d)
	c.inside = d.Reason
	return c.row.decided(c.verdict, nil, nil)
}

// ownRefusal returns the refusal of one of hutch's own tools as a decision; nil if there
// was none.
func (c *call) ownRefusal(result json.RawMessage) *policy.Decision {
	switch {
	case c.file != nil:
		if t := c.file.done.Refused(); t != nil {
			return &policy.Decision{Rule: ruleTraversal, Reason: t.Error(), Code: policy.PathTraversalAttempt}
		}
	case c.command != nil:
		if out, ok := errors.AsType[*dispatch.Outside](c.command.wrong); ok {
			return &policy.Decision{Rule: ruleFolder, Reason: out.Error(), Code: policy.PathOutsideBoundary}
		}
	case c.server == wire.Local && string(rawjson.Get(result, "_meta", wire.RefusedMeta)) == "true":
		return &policy.Decision{Rule: rulePrivate, Reason: strings.TrimPrefix(refusalText(result), "Error: "), Code: policy.DomainNotAllowed}
	}
	return nil
}

// refusalText returns the first text of a result.
func refusalText(result json.RawMessage) string {
	for block := range rawjson.Each(rawjson.Get(result, "content")) {
		return rawjson.GetString(block, "text")
	}
	return ""
}
