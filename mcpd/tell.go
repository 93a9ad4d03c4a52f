package mcpd

import (
	"context"
	"encoding/json"

	"hutch/aggd/rawjson"
	"hutch/mcpd/policy"
)

// withheld is what a guest gets for what it may not be told.
const withheld = "[withheld by policy]"

// told returns the params of what a server tells while a call is under way,
// progress or a log message, as the guest may have them. Their text is judged as
// the content of a result is, by the rules for those. It is withheld where a
// person would have to be asked: who reads from the server cannot wait.
func (e *Endpoint) told(about *policy.Event, params json.RawMessage, member string) json.RawMessage {
	now := e.rules.Load()
	value := rawjson.Get(params, member)
	if !now.judges || value == nil {
		return params
	}
	text := string(value)
	if rawjson.IsString(value) {
		text = rawjson.String(value)
	}
	about.On = policy.OnResponse
	about.Answer = append(rawjson.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
	d := now.decide(context.Background(), about)
	switch {
	case d.Would != "":
		e.observed(about, d)
		return params
	case d.Action == policy.Allow:
		return params
	case d.Action == policy.Rewrite:
		var result struct{ Content []struct{ Text string } }
		if json.Unmarshal(d.Rewritten, &result) == nil && len(result.Content) == 1 {
			return rawjson.Set(params, rawjson.Quote(result.Content[0].Text), member)
		}
	default:
		e.blocked(about, d)
	}
	return rawjson.Set(params, rawjson.Quote(withheld), member)
}
