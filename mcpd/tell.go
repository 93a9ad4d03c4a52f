package mcpd

import (
	"context"
	"encoding/json"
	"slices"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/mcpd/policy"
)

// withheld is what a guest gets for what it may not be told.
const withheld = "[withheld by policy]"

// A telling is a notification by which a server tells something while a call is
// under way: the members of its params that are texts for somebody to read, and
// the others, with what they have to be. A guest whose policy judges results gets
// no other members.
type telling struct {
	texts []string
	plain []plainMember
}

type plainMember struct {
	name string
	is   func(value []byte) bool
}

var (
	tellsProgress = telling{[]string{"message"}, []plainMember{{"progressToken", isScalar}, {"progress", isNumber}, {"total", isNumber}}}
	tellsLog      = telling{[]string{"data", "logger"}, []plainMember{{"level", isLevel}}}
)

func isScalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }
func isNumber(value []byte) bool { return value[0] == '-' || value[0] >= '0' && value[0] <= '9' }
func isLevel(value []byte) bool  { return slices.Contains(jsonrpc.Levels, rawjson.String(value)) }

// told returns the params of a notification as the guest may have them, nil if it
// may not. about makes the event of the call that it belongs to.
func (e *Endpoint) told(t telling, about func() *policy.Event, params json.RawMessage) json.RawMessage {
	if !e.rules.Load().judges {
		return params
	}
	names := slices.Clone(t.texts)
	for _, p := range t.plain {
		names = append(names, p.name)
	}
	members := make([]rawjson.Span, len(names))
	if rawjson.Members(params, names, members) != nil { // as two of one name
		return nil
	}
	b := []byte("{")
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(rawjson.AppendString(b, name), ':'), value...)
	}
	for i, p := range t.plain {
		if value := members[len(t.texts)+i].Of(params); len(value) > 0 && p.is(value) {
			add(p.name, value)
		}
	}
	var said []string
	var texts []string
	for i, name := range t.texts {
		if value := members[i].Of(params); value != nil {
			said, texts = append(said, name), append(texts, textOf(value))
		}
	}
	may, same := e.judgeTexts(about(), texts)
	for i, name := range said {
		value := rawjson.Get(params, name)
		if !same {
			value = rawjson.Quote(may[i])
		}
		add(name, value)
	}
	return append(b, '}')
}

// textOf returns a value as a text to be judged.
func textOf(value []byte) string {
	if rawjson.IsString(value) {
		return rawjson.String(value)
	}
	return string(value)
}

// judgeTexts judges texts as the content of a result, by the rules for those, and
// returns what the guest may have of them, or that they are the same. They are
// withheld where a person would have to be asked: who reads from the server
// cannot wait.
func (e *Endpoint) judgeTexts(about *policy.Event, texts []string) (may []string, same bool) {
	if len(texts) == 0 {
		return nil, true
	}
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var result struct {
		Content []block `json:"content"`
	}
	for _, text := range texts {
		result.Content = append(result.Content, block{"text", text})
	}
	about.On = policy.OnResponse
	about.Answer, _ = rawjson.Encode(result)
	d := e.rules.Load().decide(context.Background(), about)
	if d.Would != "" {
		e.observed(about, d)
	}
	switch {
	case d.Rewritten != nil && d.Action != policy.Ask:
		result.Content = nil
		if json.Unmarshal(d.Rewritten, &result) == nil && len(result.Content) == len(texts) {
			for i := range texts {
				texts[i] = result.Content[i].Text
			}
			return texts, false
		}
	case d.Action == policy.Allow:
		return nil, true
	default:
		e.blocked(about, d)
	}
	for i := range texts {
		texts[i] = withheld
	}
	return texts, false
}

// mayTell says whether the guest may have another notification of a server, whose
// params are judged as one text, beside others.
func (e *Endpoint) mayTell(about func() *policy.Event, params json.RawMessage, others ...string) bool {
	if !e.rules.Load().judges || len(params) == 0 && others == nil {
		return true
	}
	_, same := e.judgeTexts(about(), append(others, string(params)))
	return same
}
