package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/batch"
)

// A Cedar has policies in that language. If there are any, what none permits
// is refused.
type Cedar struct {
	Layer    string            // whose they are
	Policies map[string]string // by name
	Entities string            // JSON; "": none but those of requests
}

// ruleCedar is where in the profile the policies stand.
const ruleCedar = "security.cedar.policies"

// A cedarSet is a Cedar that is compiled.
type cedarSet struct {
	layer    string
	policies *cedar.PolicySet
	entities cedar.EntityMap
}

// cedarMethods are the requests that are actions, with their kinds of resource.
var cedarMethods = map[string]struct{ action, resource string }{
	"tools/call":          {"call_tool", "Tool"},
	"prompts/get":         {"get_prompt", "Prompt"},
	"resources/read":      {"read_resource", "Resource"},
	"resources/subscribe": {"read_resource", "Resource"},
}

// cedarFree are the requests beside those unasked that need no permission.
var cedarFree = []string{
	"ping", "server/discover", "subscriptions/listen", "completion/complete", "roots/list", "resources/unsubscribe",
	"tasks/get", "tasks/list", "tasks/result", "tasks/cancel",
}

// compileCedar compiles the policies and reads the entities.
func (p *Policy) compileCedar(c Cedar) error {
	if len(c.Policies) == 0 && c.Entities == "" {
		return nil
	}
	set := &cedarSet{layer: c.Layer, policies: cedar.NewPolicySet()}
	if c.Entities != "" {
		if err := json.Unmarshal([]byte(c.Entities), &set.entities); err != nil {
			return &Fault{Of: "security.cedar", Key: "entities", Text: fmt.Sprintf("cannot be read: %v", err)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		if err := set.add(name, c.Policies[name]); err != nil {
			return &Fault{Of: ruleCedar, Key: name, Text: err.Error()}
		}
	}
	if len(c.Policies) > 0 {
		p.cedar = set
	}
	return nil
}

// names returns the names of the policies.
func (s *cedarSet) names() (names []string) {
	for id := range s.policies.All() {
		names = append(names, string(id))
	}
	slices.Sort(names)
	return names
}

// hasCedar says whether policies are about events of a kind.
func (p *Policy) hasCedar(on string) bool { return p.cedar != nil && on == OnRequest }

// tryCedar refuses what no policy permits, what one forbids, and what one
// cannot be evaluated for.
func (p *Policy) tryCedar(e *Event) *Decision {
	if !p.hasCedar(e.On) || unasked[e.Method] || slices.Contains(cedarFree, e.Method) || strings.HasPrefix(e.Method, "notifications/") {
		return nil
	}
	refused := p.cedar.refuses(e)
	if refused == nil {
		return nil
	}
	return &Decision{Action: Block, Rule: ruleCedar, Layer: p.cedar.layer, Reason: refused.reason, Code: refused.code}
}

func (s *cedarSet) refuses(e *Event) *refusal {
	method, ok := cedarMethods[e.Method]
	if !ok {
		return refuse(ToolNotAllowed, "no Cedar action is for %q", e.Method)
	}
	r, refused := s.request(e, method.resource)
	if refused != nil {
		return refused
	}
	r.Action = cedar.NewEntityUID("Action", cedar.String(method.action))
	decision, why := cedar.Decision(cedar.Deny), cedar.Diagnostic{}
	if e.Listing {
		decision, why = s.could(r)
	} else {
		decision, why = cedar.Authorize(s.policies, r, r.Request)
	}
	switch {
	case len(why.Errors) > 0:
		first := slices.MinFunc(why.Errors, func(a, b cedar.DiagnosticError) int { return strings.Compare(string(a.PolicyID), string(b.PolicyID)) })
		return refuse(ToolNotAllowed, "policy %q cannot be evaluated: %s", first.PolicyID, first.Message)
	case decision == cedar.Allow:
		return nil
	case len(why.Reasons) > 0:
		return refuse(ToolExplicitlyDenied, "%s %q is forbidden by %s", strings.ToLower(method.resource), r.Resource.ID, policyNames(why.Reasons))
	}
	return refuse(ToolNotAllowed, "no policy permits %s %q", strings.ToLower(method.resource), r.Resource.ID)
}

// could evaluates a request as one whose arguments are not known: allowed if
// it could be allowed with any.
func (s *cedarSet) could(r *cedarRequest) (decision cedar.Decision, why cedar.Diagnostic) {
	unknown := batch.Request{Principal: r.Principal, Action: r.Action, Resource: r.Resource, Context: batch.Ignore()}
	err := batch.Authorize(context.Background(), s.policies, r, unknown, func(result batch.Result) error {
		decision, why = result.Decision, result.Diagnostic
		return nil
	})
	if err != nil || len(why.Errors) > 0 { // perhaps for want of arguments
		return cedar.Allow, cedar.Diagnostic{}
	}
	return decision, why
}

func policyNames(reasons []cedar.DiagnosticReason) string {
	var names []string
	for _, r := range reasons {
		names = append(names, fmt.Sprintf("policy %q", r.PolicyID))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
