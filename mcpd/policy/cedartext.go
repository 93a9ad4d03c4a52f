package policy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// The largest text of a policy, and how deep it may be nested: its parser goes
// as deep.
const (
	maxCedar   = 64 << 10
	cedarDepth = 100
)

// add compiles the policies of a text. The first has the text's name, those
// that follow have a number, too.
func (s *cedarSet) add(name, text string) error {
	if len(text) > maxCedar {
		return fmt.Errorf("has %d bytes, more than %d", len(text), maxCedar)
	}
	if depthOf(text) > cedarDepth {
		return fmt.Errorf("is nested deeper than %d", cedarDepth)
	}
	list, err := cedar.NewPolicyListFromBytes(name, []byte(text))
	if err != nil {
		return cedarFault(err)
	}
	if len(list) == 0 {
		return errors.New("has no policy in it: write permit(…); or forbid(…);")
	}
	for i, policy := range list {
		if err := s.checkAction(policy); err != nil {
			return err
		}
		id := name
		if i > 0 {
			id = fmt.Sprintf("%s.%d", name, i+1)
		}
		if !s.policies.Add(cedar.PolicyID(id), policy) {
			return fmt.Errorf("has a policy %q, which another is called: choose another name", id)
		}
	}
	return nil
}

// The parts of the parser's errors: where, mostly behind the word that is wrong,
// and what it is, often that one word was got and another wanted.
var (
	cedarPlace  = regexp.MustCompile(`(?s)^parser error: parse error at [^\n]*?:(\d+):(\d+) "(?:[^"\\]|\\.)*": (.*)$`)
	cedarWanted = regexp.MustCompile(`(?s)^(?:exact )?got (.*) want (.*)$`)
)

// cedarFault tells of an error of the parser.
func cedarFault(err error) error {
	m := cedarPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Errorf("does not parse: %.200s", err)
	}
	says := m[3]
	if w := cedarWanted.FindStringSubmatch(says); w != nil {
		found := "the end"
		if w[1] != "" {
			found = fmt.Sprintf("%.64q", w[1])
		}
		says = fmt.Sprintf("expected %q, found %s", w[2], found)
	}
	return fmt.Errorf("does not parse: near line %s column %s: %.200s", m[1], m[2], says)
}

// checkAction refuses a policy for an action that no request is, nor the
// entities have as a group of those: it would never count.
func (s *cedarSet) checkAction(p *cedar.Policy) error {
	var named []cedar.EntityUID
	switch scope := p.AST().Action.(type) {
	case ast.ScopeTypeEq:
		named = []cedar.EntityUID{scope.Entity}
	case ast.ScopeTypeIn:
		named = []cedar.EntityUID{scope.Entity}
	case ast.ScopeTypeInSet:
		named = scope.Entities
	}
	known := s.actions()
	for _, id := range named {
		if !known[id] {
			return fmt.Errorf("no request is %.64s: actions are %s", id, strings.Join(cedarActions(), " "))
		}
	}
	return nil
}

// actions returns the actions of requests, with what the entities say that
// they are in.
func (s *cedarSet) actions() map[cedar.EntityUID]bool {
	known := make(map[cedar.EntityUID]bool)
	var add func(cedar.EntityUID)
	add = func(id cedar.EntityUID) {
		if !known[id] {
			known[id] = true
			for parent := range s.entities[id].Parents.All() {
				add(parent)
			}
		}
	}
	for _, name := range cedarActions() {
		add(cedar.NewEntityUID("Action", cedar.String(name)))
	}
	return known
}

// cedarActions returns the names of the actions.
func cedarActions() []string {
	names := make(map[string]bool)
	for _, m := range cedarMethods {
		names[m.action] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// depthOf returns how deep the brackets of a text are nested, conditions in
// conditions, or operators that stand before others, at most.
func depthOf(text string) (deepest int) {
	deepest = strings.Count(text, "if") + strings.Count(text, "else")
	depth, prefix := 0, 0
	for _, c := range text {
		switch {
		case strings.ContainsRune("([{", c):
			depth++
		case strings.ContainsRune(")]}", c):
			depth--
		case strings.ContainsRune("!-", c):
			prefix++
		case c != ' ':
			prefix = 0
		}
		deepest = max(deepest, depth, prefix)
	}
	return deepest
}
