package vmcp

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kept is a part of a configuration that is not looked into: its line, 0 if it is not
// there.
type kept int

// UnmarshalYAML notes that the part is there.
func (k *kept) UnmarshalYAML(n *yaml.Node) error {
	*k = kept(n.Line)
	return nil
}

// keptKeys are the keys that change nothing here, and who does what they are for.
var keptKeys = []struct {
	key string
	at  func(*Config) kept
	why string
}{
	{"incomingAuth.oidc", func(c *Config) kept { return c.Incoming.OIDC }, "the door that serves the group says who may connect"},
	{"incomingAuth.authz", func(c *Config) kept { return c.Incoming.Authz }, "it is NOT in force here: the group's policy decides, which takes Cedar's policies too"},
	{"metadata", func(c *Config) kept { return c.Metadata }, "it is for people"},
	{"compositeToolRefs", func(c *Config) kept { return c.CompositeToolRefs }, "there are no resources of Kubernetes: write the tools under compositeTools"},
	{"telemetry", func(c *Config) kept { return c.Telemetry }, "hutchd's environment says where telemetry goes"},
	{"audit", func(c *Config) kept { return c.Audit }, "the group's ledger has every call"},
	{"rateLimiting", func(c *Config) kept { return c.RateLimiting }, "it is NOT in force here: say rate in a capability of the group's policy"},
	{"passthroughHeaders", func(c *Config) kept { return c.PassthroughHeaders }, "headers of clients do not go on to servers"},
	{"sessionStorage", func(c *Config) kept { return c.SessionStorage }, "sessions are in memory"},
	{"optimizer", func(c *Config) kept { return c.Optimizer }, "hutch has none: clients see every tool"},
	{"codeMode", func(c *Config) kept { return c.CodeMode }, "hutch has none"},
	{"operational.timeouts.listChanged", func(c *Config) kept { return c.Operational.Timeouts.ListChanged }, "lists are read anew as soon as a server says that they changed"},
	{"operational.failureHandling.statusReportingInterval", func(c *Config) kept { return c.Operational.Failures.StatusReportingInterval }, "the state is read when somebody asks"},
}

// Notes returns a line for each thing that is kept and changes nothing, or that the
// user may have meant otherwise.
func (c *Config) Notes() []string {
	f := faults{c: c}
	for _, k := range keptKeys {
		if k.at(c) > 0 {
			f.add(strings.Split(k.key, "."), "kept and not used: %s", k.why)
		}
	}
	for i, w := range c.Aggregation.Tools {
		if w.ToolConfigRef > 0 {
			f.add(toolPath(i, "toolConfigRef"), "kept and not used: there are no resources of Kubernetes: filter and overrides count")
		}
	}
	if c.Outgoing.Source == "discovered" {
		f.add([]string{"outgoingAuth", "source"}, "nothing is discovered here: what is said below counts")
	}
	c.eachStrategy(func(path []string, s Strategy) {
		if s.Header != nil && s.Header.Value != "" && !isRef(s.Header.Value) {
			f.add(at(path, "headerInjection", "headerValue"), "the value stands in the file: if it is a secret, store it and write secret:NAME")
		}
		if s.Exchange == nil {
			return
		}
		for key, value := range map[string]string{"clientSecret": s.Exchange.ClientSecret, "subjectToken": s.Exchange.SubjectToken} {
			if value != "" && !isRef(value) {
				f.add(at(path, "tokenExchange", key), "the secret stands in the file: store it and write secret:NAME")
			}
		}
	})
	return f.texts()
}

// isRef reports whether a value is a reference to a secret.
func isRef(value string) bool {
	kind, _, ok := strings.Cut(value, ":")
	return ok && (kind == "secret" || kind == "env" || kind == "file" || kind == "vault")
}

// eachCall calls do with every tool that a step of a composite tool calls, and the path
// to it.
func (c *Config) eachCall(do func(path []string, tool string)) {
	for i, d := range c.CompositeTools {
		for j, s := range d.Steps {
			here := []string{"compositeTools", strconv.Itoa(i), "steps", strconv.Itoa(j)}
			if s.Step != nil {
				here, s = at(here, "step"), *s.Step
			}
			if s.Tool != "" {
				do(at(here, "tool"), s.Tool)
			}
		}
	}
}

// Split returns the server of the tool that a step calls SERVER.TOOL, the one of the
// longest name that there is, and what the step calls the tool there.
func Split(tool string, is func(server string) bool) (server, name string, ok bool) {
	for at := len(tool); ; {
		if at = strings.LastIndexByte(tool[:at], '.'); at < 0 {
			return "", "", false
		}
		if is(tool[:at]) {
			return tool[:at], tool[at+1:], true
		}
	}
}

// Strangers returns a line for each place that names a server which the group does not
// have, for each backend that is a member, and for each step that calls what is no tool of
// the group.
func (c *Config) Strangers(has, member, calls func(name string) bool) []string {
	f := faults{c: c}
	see := func(server string, path ...string) {
		if !has(server) {
			f.add(path, "the group has no server %.64q", server)
		}
	}
	for i, w := range c.Aggregation.Tools {
		see(w.Workload, toolPath(i, "workload")...)
	}
	for i, name := range c.Aggregation.ConflictsConfig.PriorityOrder {
		see(name, orderPath(i)...)
	}
	for name := range c.Operational.Timeouts.PerWorkload {
		see(name, "operational", "timeouts", "perWorkload", name)
	}
	for name := range c.Outgoing.Backends {
		see(name, "outgoingAuth", "backends", name)
	}
	for i, b := range c.Backends {
		if member(b.Name) {
			f.add([]string{"backends", strconv.Itoa(i)}, "%.64s is a member, which is what counts: the url is not used", b.Name)
		}
	}
	c.eachCall(func(path []string, tool string) {
		if !calls(tool) {
			f.add(path, "the group has no tool %.80q: want SERVER.TOOL, or a name that clients have", tool)
		}
	})
	return f.texts()
}
