package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	if err := rawjson.Members(text, eventNames, make([]rawjson.Span, len(eventNames))); err != nil { // as for two of a name
		return nil, fmt.Errorf("%w: event: %w", fs.ErrInvalid, err)
	}
	e := &Event{Known: true, Trial: true}
	if err := e.decode(text); err != nil {
		return nil, err
	}
	if e.On == "" && e.Tool+e.Name != "" {
		e.On = OnRequest
	}
	events := []string{OnRequest, OnResponse, OnAsk, OnFile, OnExec, OnHTTP}
	if !slices.Contains(events, e.On) {
		return nil, fmt.Errorf("%w: event: on is %.64q: it is one of %s", fs.ErrInvalid, e.On, strings.Join(events, ", "))
	}
	if e.On == OnRequest || e.On == OnResponse {
		if server, own, ok := jsonrpc.SplitName(e.Tool); ok && e.Server+e.Name == "" { // no rule for that server would see it
			return nil, fmt.Errorf("%w: event: tool %.64q is the guest's name of a tool: say it as \"name\", or say server %.64q and tool %.64q", fs.ErrInvalid, e.Tool, server, own)
		}
		e.conclude()
	}
	if e.On == OnHTTP && e.Port == 0 {
		e.Port = 443
		if e.Scheme == "http" {
			e.Port = 80
		}
	}
	if e.On == OnResponse && e.Answer == nil {
		e.Answer = json.RawMessage("{}")
	}
	return e, nil
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

// decode reads the members of an event, of which none may be unknown.
func (e *Event) decode(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(e)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		err = errors.New("more follows it")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%w: event: %.64s is not known: there are %s", fs.ErrInvalid, name, strings.Join(eventNames, " "))
	}
	return fmt.Errorf("%w: event: %s", fs.ErrInvalid, strings.TrimPrefix(err.Error(), "json: "))
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
