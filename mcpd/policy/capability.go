package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hutch/aggd/guard"
)

// A Capability is what a guest may do with the tools that it names. Constraints
// that are nil do not constrain; an empty list allows nothing.
type Capability struct {
	Name          string // where in the profile it stands: security.capabilities.NAME
	Layer         string // whose it is
	Tools         []string
	Paths         []string
	Domains       []string
	Commands      []string
	Subcommands   map[string][]string // commands, each with its first arguments; none: any
	Rate          string              // 20/1m: so many calls in so much time; "": any
	MaxResponse   int64               // bytes; 0: any
	MaxConcurrent int                 // calls at once; 0: any
}

// A capability is a Capability that is compiled.
type capability struct {
	Capability
	domains []guard.Pattern
	limited []limited // Subcommands, by name
	usage   *usage
	observe bool // what it refuses, and have it pass
}

// A limited is a command whose first arguments are limited.
type limited struct {
	name   string
	firsts []string // none: any
}

// compileCapabilities compiles them, in the order of their names.
func (p *Policy) compileCapabilities(list []Capability) error {
	for _, c := range list {
		compiled, err := compileCapability(c)
		if err != nil {
			return err
		}
		p.capabilities = append(p.capabilities, compiled)
	}
	for _, c := range p.capabilities {
		c.observe = p.observe && c.Layer != LayerCorp
		if c.Layer == LayerCorp {
			p.capabilityLayer = LayerCorp
		}
	}
	slices.SortFunc(p.capabilities, func(a, b *capability) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func compileCapability(says Capability) (*capability, error) {
	c := &capability{Capability: says}
	fault := func(key string, err error) (*capability, error) {
		return nil, &Fault{Of: says.Name, Key: key, Text: err.Error()}
	}
	if len(c.Tools) == 0 {
		return fault("tools", fmt.Errorf(`is missing: say which tools it is for, like ["fs.*"]`))
	}
	for _, tool := range c.Tools {
		if err := checkPattern(tool); err != nil {
			return fault("tools", err)
		}
	}
	var err error
	if c.Paths, err = compileEach(says.Paths, compilePath); err != nil {
		return fault("paths", err)
	}
	if c.Commands, err = compileEach(says.Commands, compileWord); err != nil {
		return fault("commands", err)
	}
	for _, d := range says.Domains {
		pattern, err := guard.ParsePattern(d)
		if err != nil {
			return fault("domains", fmt.Errorf(`has %v: write a host as "pypi.org", "*.debian.org" or "localhost:8080"`, err))
		}
		c.domains = append(c.domains, pattern)
	}
	for _, name := range slices.Sorted(maps.Keys(says.Subcommands)) {
		word, err := compileWord(name)
		if err != nil {
			return fault("subcommands", err)
		}
		firsts, err := compileEach(says.Subcommands[name], compileWord)
		if err != nil {
			return fault("subcommands", err)
		}
		c.limited = append(c.limited, limited{word, firsts})
	}
	if c.usage, err = newUsage(says.Rate); err != nil {
		return fault("rate", err)
	}
	return c, nil
}

func compileEach(list []string, compile func(string) (string, error)) ([]string, error) {
	if list == nil {
		return nil, nil
	}
	compiled := make([]string, 0, len(list))
	for _, text := range list {
		one, err := compile(text)
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, one)
	}
	return compiled, nil
}

// tryCapabilities refuses a call that no capability allows, for the reason of
// the one that names its tool most closely. Events that are no calls are
// decided by those that name the tool that would do it, if any does.
func (p *Policy) tryCapabilities(e *Event) *Decision {
	e.passed = nil
	if len(p.capabilities) == 0 {
		return nil
	}
	guest, own := toolOf(e)
	if guest == "" {
		return nil
	}
	about := subject{Event: e}
	var nearest *capability
	var why *refusal
	closest := 0
	for _, c := range p.capabilities {
		near := c.names(e, guest, own)
		if near == 0 {
			continue
		}
		refused := c.refuses(&about)
		if refused == nil {
			e.passed = append(e.passed, c)
		} else if near > closest {
			nearest, why, closest = c, refused, near
		}
	}
	switch {
	case e.On == OnResponse:
		return p.tryLength(e, guest, own)
	case len(e.passed) > 0:
		return nil
	case nearest != nil:
		return nearest.block(why)
	case e.On == OnRequest:
		return &Decision{Action: Block, Rule: ruleCapabilities, Layer: p.capabilityLayer, Code: ToolNotAllowed, Reason: fmt.Sprintf("no capability is for tool %q", guest)}
	}
	return nil
}

// hasCapabilities says whether capabilities may be about events of a kind.
func (p *Policy) hasCapabilities(on string) bool { return len(p.capabilities) > 0 && on != OnAsk }

// ruleCapabilities is the name of what refuses tools that no capability is for.
const ruleCapabilities = "security.capabilities"

func (c *capability) block(why *refusal) *Decision {
	return &Decision{Action: Block, Rule: c.Name, Layer: c.Layer, Code: why.code, Reason: why.reason}
}

// names says how closely c names the tool of an event, 0 if it does not. A server
// that calls a tool as hutch calls its own is not meant by that name.
func (c *capability) names(e *Event, guest, own string) (near int) {
	byOwn := own != guest && !isOurs(own)
	byGiven := e.Arranged && !isOurs(e.Name)
	for _, pattern := range c.Tools {
		if !matchOurs(pattern, guest, false) && !(byOwn && match(pattern, own, false)) && !(byGiven && match(pattern, e.Name, false)) {
			continue
		}
		n := 2 * len(pattern)
		if !strings.HasSuffix(pattern, "*") {
			n++
		}
		near = max(near, n)
	}
	return near
}

// isOurs tells whether a name is like those of hutch's own tools.
func isOurs(tool string) bool {
	for _, head := range []string{"fs.", "file_", "dir_", "snapshots_"} {
		if strings.HasPrefix(tool, head) {
			return true
		}
	}
	return tool == cmdRun
}

// refuses says why c does not allow what the event is about. What a constraint
// needs must be there.
func (c *capability) refuses(about *subject) *refusal {
	call := about.On == OnRequest || about.On == OnResponse
	if about.Listing {
		return nil
	}
	if c.Paths != nil && (call || about.On == OnFile) {
		if refused := c.refusesPaths(about); refused != nil {
			return refused
		}
	}
	if c.Domains != nil && (call || about.On == OnHTTP) {
		if refused := c.refusesHosts(about); refused != nil {
			return refused
		}
	}
	if (c.Commands != nil || c.Subcommands != nil) && (call || about.On == OnExec) {
		return c.refusesCommands(about)
	}
	return nil
}

// pathless are hutch's own tools, as the guest names them, that are about all of
// the workspace if no path is given. What a server's tool is about then, nobody
// knows.
var pathless = map[string]bool{"fs.glob": true, "fs.grep": true, "fs.list": true}

func (c *capability) refusesPaths(about *subject) *refusal {
	paths, refused := about.paths()
	if refused == nil && len(paths) == 0 {
		if guest, _ := toolOf(about.Event); !about.Known || !pathless[guest] {
			return refuse(MissingPath, "no argument is a path: give one, called path")
		}
		paths = []named{{"path", workspace}}
	}
	for _, p := range paths {
		if refused == nil {
			refused = checkPath(c.Paths, p)
		}
	}
	return refused
}

func (c *capability) refusesHosts(about *subject) *refusal {
	if about.On == OnHTTP {
		at, refused := placeOf(named{"request", about.Host})
		if refused != nil {
			return refused
		}
		return checkPlace(c.domains, place{at.host, cmp.Or(about.Port, at.port)}, "request")
	}
	hosts, refused := about.hosts()
	if refused == nil && len(hosts) == 0 {
		refused = refuse(MissingDomain, "no argument says a host: give one, called url")
	}
	for _, n := range hosts {
		if refused != nil {
			break
		}
		var at place
		if at, refused = placeOf(n); refused == nil {
			refused = checkPlace(c.domains, at, n.where)
		}
	}
	return refused
}

func (c *capability) refusesCommands(about *subject) *refusal {
	lines, refused := about.commands()
	if refused == nil && len(lines) == 0 {
		refused = refuse(MissingCommand, "no argument is a command: give one, called command")
	}
	for _, l := range lines {
		if refused == nil {
			refused = c.checkLine(l)
		}
	}
	return refused
}

// tryLength refuses an answer that is longer than the largest max_response of the
// capabilities that allow the call. If none does now, because arguments or policy
// have changed, those that name the tool count.
func (p *Policy) tryLength(e *Event, guest, own string) *Decision {
	list := e.passed
	if len(list) == 0 {
		for _, c := range p.capabilities {
			if c.names(e, guest, own) > 0 {
				list = append(list, c)
			}
		}
	}
	var widest *capability
	for _, c := range list {
		if c.MaxResponse == 0 {
			return nil
		}
		if widest == nil || c.MaxResponse > widest.MaxResponse {
			widest = c
		}
	}
	if widest == nil || int64(len(e.Answer)) <= widest.MaxResponse {
		return nil
	}
	return widest.block(refuse(OutputSizeExceeded, "the result has %d bytes, more than %d", len(e.Answer), widest.MaxResponse))
}
