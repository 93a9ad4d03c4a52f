package policy

import (
	"errors"
	"fmt"

	"hutch/aggd/rawjson"
)

// ruleForm is what blocks what can be understood in two ways.
const ruleForm = "form"

// tryForm blocks arguments and results in which an object has two members of
// one name, or that are nested too deep, where rules look at them: the server or
// the guest might take another value than the one that was decided about.
func (p *Policy) tryForm(e *Event) *Decision {
	if !p.reads[e.On] && !p.hasCedar(e.On) {
		return nil
	}
	if d := wrongForm(e.Args, "arguments"); d != nil || e.On != OnResponse {
		return d
	}
	return wrongForm(e.Answer, "results")
}

func wrongForm(text []byte, what string) *Decision {
	if len(text) == 0 {
		return nil
	}
	err := rawjson.Unique(text)
	if err == nil {
		return nil
	}
	if errors.Is(err, rawjson.ErrAmbiguous) {
		err = fmt.Errorf("%w: say each name once, as readers do not agree on which counts", err)
	}
	return &Decision{Action: Block, Rule: ruleForm, Reason: fmt.Sprintf("the %s are refused: %v", what, err), Code: ToolNotAllowed}
}

// hasForm says that the form of events is no reason to ask about them.
func (p *Policy) hasForm(string) bool { return false }
