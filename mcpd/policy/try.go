package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"hutch/aggd/guard"
	"hutch/aggd/jsonrpc"
	"hutch/aggd/rawjson"
	"hutch/fs"
)

// ParseEvent reads an event, a JSON object with the names that Event has. What
// can be concluded need not be said: an event with a tool is a call of it, and
// its name is SERVER__TOOL.
func ParseEvent(text []byte) (*Event, error) {
	members := make([]rawjson.Span, len(eventNames))
	if err := rawjson.Members(text, eventNames, members); err != nil { // as for two of a name
		return nil, fmt.Errorf("%w: event: %w", fs.ErrInvalid, err)
	}
	e := &Event{Known: true, Trial: true}
	if err := rawjson.Decode(text, e); err != nil {
		if _, unknown := errors.AsType[rawjson.Unknown](err); unknown {
			err = fmt.Errorf("%w: there are %s", err, strings.Join(eventNames, " "))
		}
		return nil, fmt.Errorf("%w: event: %w", fs.ErrInvalid, err)
	}
	if e.On == "" && e.Tool+e.Name != "" {
		e.On = OnRequest
	}
	if err := e.checkMembers(func(i int) bool { return members[i].End > 0 }); err != nil {
		return nil, fmt.Errorf("%w: event: %w", fs.ErrInvalid, err)
	}
	if e.On == OnFile {
		if err := e.cleanPath(); err != nil {
			return nil, fmt.Errorf("%w: event: %w", fs.ErrInvalid, err)
		}
	}
	if e.On == OnRequest || e.On == OnResponse {
		if server, own, ok := jsonrpc.SplitName(e.Tool); ok && e.Server+e.Name == "" { // no rule for that server would see it
			return nil, fmt.Errorf("%w: event: tool %.64q is the guest's name of a tool: say it as \"name\", or say server %.64q and tool %.64q", fs.ErrInvalid, e.Tool, server, own)
		}
		e.conclude()
	}
	if e.On == OnHTTP {
		e.concludeHTTP()
	}
	if e.On == OnResponse && e.Answer == nil {
		e.Answer = json.RawMessage("{}")
	}
	return e, nil
}

// parts says which members the events of a kind have, beside those that all
// have, and which of them cannot be left out: one of those with a bar between.
var parts = []struct{ on, has, needs string }{
	{OnRequest, "process method server tool name arguments schema", "tool|name|method"},
	{OnResponse, "process method server tool name arguments schema result is_error", "tool|name|method"},
	{OnAsk, "process method server arguments", "method"},
	{OnFile, "process server tool name arguments operation path bytes", "operation path"},
	{OnExec, "process server tool name arguments command args", "command"},
	{OnHTTP, "process host port method path scheme", "host"},
}

// ofAll are the members that events of all kinds have.
var ofAll = []string{"on", "vm", "profile", "session", "principal", "trace_id"}

// checkMembers refuses a member that has no meaning in such an event, as a slip,
// and the lack of one that it is nothing without. said tells of each of
// eventNames whether it was said.
func (e *Event) checkMembers(said func(i int) bool) error {
	var events []string
	for _, p := range parts {
		events = append(events, p.on)
		if p.on != e.On {
			continue
		}
		has := append(strings.Fields(p.has), ofAll...)
		for i, name := range eventNames {
			if said(i) && !slices.Contains(has, name) {
				return fmt.Errorf("%q means nothing in the event %s, which has %s", name, e.On, p.has)
			}
		}
		for _, need := range strings.Fields(p.needs) {
			if !slices.ContainsFunc(strings.Split(need, "|"), func(name string) bool { return said(slices.Index(eventNames, name)) }) {
				return fmt.Errorf("the event %s needs %s", e.On, strings.ReplaceAll(need, "|", " or "))
			}
		}
		return nil
	}
	return fmt.Errorf("on is %.64q: it is one of %s", e.On, strings.Join(events, ", "))
}

// cleanPath has the path be as that of a file is decided on: absolute and clean.
func (e *Event) cleanPath() error {
	if !path.IsAbs(e.Path) {
		e.Path = workspace + "/" + e.Path
	}
	if clean := path.Clean(e.Path); clean != e.Path {
		return fmt.Errorf("path %.200q would be decided on as %.200q, if at all: say that", e.Path, clean)
	}
	return nil
}

// conclude fills in what follows from the rest of a call.
func (e *Event) conclude() {
	if server, own, ok := jsonrpc.SplitName(e.Name); ok && e.Tool == "" {
		e.Server, e.Tool = cmp.Or(e.Server, server), own
	}
	if e.Name == "" && e.Server != "" && e.Tool != "" {
		e.Name = jsonrpc.Name(e.Server, e.Tool)
	}
	e.Tool, e.Name = cmp.Or(e.Tool, e.Name), cmp.Or(e.Name, e.Tool)
	if e.Tool != "" {
		e.Method = cmp.Or(e.Method, "tools/call")
	}
}

// concludeHTTP does so for a request to the proxy: one that says no path and no
// method is a tunnel.
func (e *Event) concludeHTTP() {
	if e.Port == 0 {
		e.Port = 443
		if e.Scheme == "http" {
			e.Port = 80
		}
	}
	tunnel := e.Scheme != "http" && e.Path == ""
	switch {
	case e.Method == "" && tunnel:
		e.Method = "CONNECT"
	case e.Method == "":
		e.Method = "GET"
	}
	if e.Scheme == "" && e.Method == "CONNECT" {
		e.Scheme = "https"
	}
}

// eventNames are the names that an event's members have in JSON.
var eventNames = func() (names []string) {
	for f := range reflect.TypeFor[Event]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}()

// A Trial tells what would be decided of an event.
type Trial struct {
	Decision   string  `json:"decision"`
	Would      string  `json:"would,omitempty"` // the decision if the policy did not only observe
	Rule       string  `json:"rule"`
	Layer      string  `json:"layer,omitempty"`
	Reason     string  `json:"reason,omitempty"`
	Class      string  `json:"class,omitempty"`
	Code       int     `json:"code,omitempty"`
	Violation  string  `json:"violation,omitempty"`
	RetryAfter int64   `json:"retry_after_ms,omitempty"`
	Micros     float64 `json:"us"` // that it took to decide

	Rewritten json.RawMessage `json:"rewritten,omitempty"` // of rewrite: the arguments, or the result, as they become
}

// Try tells what would be decided of an event.
func (p *Policy) Try(e *Event) Trial {
	began := time.Now()
	d := p.try(e)
	t := Trial{
		Decision: d.Action, Would: d.Would, Rule: d.Rule, Layer: d.Layer, Reason: d.Reason, RetryAfter: d.RetryAfter.Milliseconds(),
		Rewritten: d.Rewritten, Micros: float64(time.Since(began).Nanoseconds()) / 1e3,
	}
	if d.Code != nil {
		t.Class, t.Code, t.Violation = d.Code.Class, d.Code.Number, d.Code.Violation
	}
	return t
}

// try decides an event, and of a request to the proxy first what the proxy does
// by itself.
func (p *Policy) try(e *Event) Decision {
	if e.On != OnHTTP {
		return p.Decide(e)
	}
	host, err := guard.Host(e.Host)
	if err == nil && e.Port != int(uint16(e.Port)) {
		err = fmt.Errorf("%d is no port from 1 to 65535", e.Port)
	}
	if err == nil && e.Path != "" {
		e.Path, err = guard.Path(e.Path)
	}
	if err != nil {
		return Decision{Action: Block, Rule: "request", Reason: err.Error(), Code: DomainNotAllowed}
	}
	e.Host = host
	rule, _, allowed := p.hosts.Decide(host, uint16(e.Port))
	if !allowed {
		return Decision{Action: Block, Rule: rule, Reason: "the network of the profile does not allow it", Code: DomainNotAllowed}
	}
	d := p.Decide(e)
	if d.Rule == RuleNetwork {
		d.Rule = rule
	}
	return d
}
