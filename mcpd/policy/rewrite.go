package policy

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"hutch/aggd/rawjson"
)

// What a rule may rewrite at most.
const (
	maxEdits = 64   // paths
	maxSteps = 32   // of a path
	maxMatch = 1000 // bytes of a regular expression
)

// compileEdits compiles what a rule rewrites, in the order in which it is done:
// removed, redacted, set.
func compileEdits(r Rule) ([]edit, *Fault) {
	var edits []edit
	add := func(key, path string, e edit) *Fault {
		var err error
		if e.path, err = parsePath(path); err != nil {
			return &Fault{Of: r.ID, Key: key, Text: fmt.Sprintf("%.64q is no path: %v", path, err)}
		}
		e.text = path
		if edits = append(edits, e); len(edits) > maxEdits {
			return &Fault{Of: r.ID, Key: key, Text: fmt.Sprintf("has more than %d paths with the others: make two rules of it", maxEdits)}
		}
		return nil
	}
	for _, path := range r.Remove {
		if f := add("remove", path, edit{}); f != nil {
			return nil, f
		}
	}
	match, fault := compileMatch(r)
	if fault != nil {
		return nil, fault
	}
	for _, path := range r.Redact {
		if f := add("redact", path, edit{value: rawjson.Quote(redacted), match: match}); f != nil {
			return nil, f
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.Set)) {
		value, err := rawjson.Encode(r.Set[path])
		if f, isFloat := r.Set[path].(float64); err != nil || isFloat && math.IsInf(f, 0) {
			return nil, &Fault{Of: r.ID, Key: "set", Text: fmt.Sprintf("%.64q is set to what JSON has not", path)}
		}
		if f := add("set", path, edit{value: value, set: true}); f != nil {
			return nil, f
		}
	}
	return edits, nil
}

// compileMatch compiles what a rule looks for in texts, nil if that is nothing.
func compileMatch(r Rule) (*regexp.Regexp, *Fault) {
	wrong := func(format string, a ...any) (*regexp.Regexp, *Fault) {
		return nil, &Fault{Of: r.ID, Key: "match", Text: fmt.Sprintf(format, a...)}
	}
	switch {
	case r.Match == "":
		return nil, nil
	case len(r.Redact) == 0:
		return wrong("says what is redacted of a text: say in redact which texts")
	case len(r.Match) > maxMatch:
		return wrong("has %d bytes, at most %d", len(r.Match), maxMatch)
	}
	match, err := regexp.Compile(r.Match)
	if err != nil {
		return wrong("is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return match, nil
}

// hasArguments are the requests that have arguments, if not always.
var hasArguments = map[string]bool{"tools/call": true, "prompts/get": true}

// rewrite makes of e what a rule says. That has to pass what e had to pass until
// then: the checks before the rules, and the rules before this one as far as
// they block or ask. It returns what refuses it, nil if nothing does.
func (p *Policy) rewrite(e *Event, by *rule) *Decision {
	if e.Listing || e.On == OnRequest && !hasArguments[e.Method] {
		return nil
	}
	refused := func(err error) *Decision {
		return &Decision{Action: Block, Rule: by.ID, Layer: by.Layer, Reason: fmt.Sprintf("the rewrite of the rule cannot be made: %v", err), firm: true}
	}
	changed := *e
	changed.seen.values = nil
	text := &changed.Args
	if e.On == OnResponse {
		text = &changed.Answer
	}
	rewritten, err := apply(by.edits, *text)
	if err == nil {
		err = rawjson.Distinct(rewritten) // {"Limit":9} with limit set is two things
	}
	if err == nil && e.On == OnRequest {
		if err = Fits(e.Schema, rewritten); err != nil {
			err = fmt.Errorf("the tool does not take that: %w", err)
		}
	}
	switch {
	case err != nil:
		return refused(err)
	case len(*text) > 0 && bytes.Equal(rewritten, *text):
		return nil
	}
	*text = rewritten
	for _, check := range []func(*Policy, *Event) *Decision{(*Policy).tryDeny, (*Policy).tryCapabilities, (*Policy).tryCedar} {
		if d := check(p, &changed); d != nil && d.Action == Block && !p.observes(d) {
			return d
		}
	}
	for _, r := range p.byEvent[e.On] {
		if r == by {
			break
		}
		if r.Server != "" && r.Server != e.Server || r.Decision == Rewrite {
			continue
		}
		d := p.tryRule(&changed, r)
		if d != nil && d.Action == Allow {
			break
		}
		if d != nil && !p.observes(d) {
			return d
		}
	}
	if changed.rewritten == nil {
		changed.rewritten = &Decision{Action: Rewrite, Rule: by.ID, Layer: by.Layer, Reason: by.reason()}
	}
	changed.rewritten.Rewritten = rewritten
	changed.seen.values = nil
	*e = changed
	return nil
}

// asRewritten returns a decision about e that goes on with what rules have made of
// it.
func (e *Event) asRewritten(d Decision) Decision {
	switch {
	case e.rewritten == nil || d.Action == Block:
	case d.Action == Allow && d.Would == "":
		return *e.rewritten
	default:
		d.Rewritten = e.rewritten.Rewritten
	}
	return d
}
