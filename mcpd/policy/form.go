package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"hutch/aggd/rawjson"
)

// ruleForm is what blocks what can be understood in two ways.
const ruleForm = "form"

var errHalfPair = errors.New("a text has half a surrogate pair, which is no character")

// tryForm blocks arguments and results in which an object has two members of
// one name, that have half a character, or that are nested too deep, where rules
// look at them: the server or the guest might take another value than the one
// that was decided about. The checks that parse arguments refuse such themselves.
func (p *Policy) tryForm(e *Event) *Decision {
	if !p.reads[e.On] && !p.hasCedar(e.On) {
		return nil
	}
	if d := wrongForm("arguments", checkForm(e.Args)); d != nil || e.On != OnResponse {
		return d
	}
	return wrongForm("results", cmp.Or(checkForm(e.Answer), e.checkResult()))
}

func wrongForm(what string, err error) *Decision {
	if err == nil {
		return nil
	}
	return &Decision{Action: Block, Rule: ruleForm, Reason: fmt.Sprintf("the %s are refused: %v", what, err), Code: ToolNotAllowed}
}

// checkForm says what in a text, which may be empty, can be understood in two ways.
func checkForm(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	err := rawjson.Distinct(text)
	switch {
	case errors.Is(err, rawjson.ErrAmbiguous):
		return fmt.Errorf("%w: say each name once and in one case, as readers do not agree on which counts", err)
	case err == nil && rawjson.HalfPair(text):
		return errHalfPair
	}
	return err
}

// resultLists are the members of results that are lists of what rules look at, by method.
var resultLists = map[string]string{"tools/call": "content", "resources/read": "contents", "prompts/get": "messages"}

// checkResult says what is wrong with a result in which rules would miss what a client
// may find: it is no object, its list is none, holds something else than objects, or a
// name that they look for is in another case.
func (e *Event) checkResult() error {
	list := resultLists[e.Method]
	if list == "" || len(e.Answer) == 0 || e.isError() {
		return nil
	}
	var top [3]rawjson.Span
	err := rawjson.Members(e.Answer, []string{list, "isError", "structuredContent"}, top[:])
	value := top[0].Of(e.Answer)
	switch {
	case errors.Is(err, rawjson.ErrType):
		return errors.New("a result is an object")
	case err != nil || value == nil || string(value) == "null":
		return err
	case value[0] != '[':
		return fmt.Errorf("the %s of a result is a list", list)
	}
	for element := range rawjson.Each(value) {
		var at [6]rawjson.Span
		err := rawjson.Members(element, []string{"type", "text", "data", "blob", "resource", "content"}, at[:])
		if errors.Is(err, rawjson.ErrType) {
			err = fmt.Errorf("the %s of a result has objects in it", list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isError tells whether what came of a request is an error in the place of a result.
func (e *Event) isError() bool {
	return e.Error || e.Failed && string(rawjson.Get(e.Answer, "isError")) != "true"
}

// ruleSize is what blocks what is too much to be looked into.
const ruleSize = "size"

// maxValues is how many values arguments or a result may have that a check looks
// into. Decoded, each takes a hundred bytes of memory or more.
const maxValues = 100_000

// trySize blocks arguments and results of too many values.
func (p *Policy) trySize(e *Event) *Decision {
	if len(e.Args) > maxValues && p.LooksInto(e.On) && rawjson.Count(e.Args) > maxValues ||
		len(e.Answer) > maxValues && p.reads[e.On] && rawjson.Count(e.Answer) > maxValues {
		return &Decision{Action: Block, Rule: ruleSize, Reason: fmt.Sprintf("more than %d values are too many to be decided about", maxValues), Code: ToolNotAllowed, firm: true}
	}
	return nil
}

// LooksInto says whether a check decodes the arguments of such events.
func (p *Policy) LooksInto(on string) bool {
	if p.reads[on] || p.hasCedar(on) {
		return true
	}
	return (on == OnRequest || on == OnResponse) &&
		(slices.ContainsFunc(p.denied, func(d denial) bool { return d.path != "" }) ||
			slices.ContainsFunc(p.capabilities, func(c *capability) bool {
				return c.Paths != nil || c.Domains != nil || c.Commands != nil || c.Subcommands != nil
			}))
}

// Asks says whether a person may be asked about such events.
func (p *Policy) Asks(on string) bool {
	return p.byDefault.Action == Ask || slices.ContainsFunc(p.byEvent[on], func(r *rule) bool { return r.Decision == Ask })
}

// hasForm says that the form of events is no reason to ask about them.
func (p *Policy) hasForm(string) bool { return false }
