package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
)

// ruleDeny is the name of the list of tools that are denied.
const ruleDeny = "security.deny"

// A denial is a pattern of the list.
type denial struct {
	text string
	tool string // a pattern
	path string // clean; "": any
}

// compileDeny compiles the list of what is denied: TOOL, or TOOL:/PATH.
func (p *Policy) compileDeny(list []string, layer string) error {
	p.denyLayer = layer
	for _, text := range list {
		d, err := compileDenial(text)
		if err != nil {
			return &Fault{Of: "security", Key: "deny", Text: err.Error()}
		}
		p.denied = append(p.denied, d)
	}
	return nil
}

func compileDenial(text string) (d denial, err error) {
	tool, file, withPath := strings.Cut(text, ":/")
	if err := checkPattern(tool); err != nil {
		return d, err
	}
	d = denial{text: text, tool: tool}
	ours, rest, colon := strings.Cut(text, ":")
	if colon && !withPath && (strings.Contains(rest, "/") || isOurs(ours)) {
		return d, fmt.Errorf("has %.64q: write the path from the root, like fs.read:/etc/*", text)
	}
	if withPath {
		file = strings.TrimSuffix(strings.TrimSuffix(file, "*"), "*")
		if strings.HasSuffix(file, "/") {
			file = strings.TrimSuffix(file, "/")
		} else if strings.HasSuffix(text, "*") && file != "" {
			return d, fmt.Errorf("has %.64q, with a * where it means nothing: write it last, after a slash", text)
		}
		d.path, err = compilePath("/" + file)
	}
	return d, err
}

// IsPattern tells whether a tool's name has no star, is one, or ends in one on
// the border of a segment.
func IsPattern(s string) bool {
	star := strings.IndexByte(s, '*')
	return star < 0 || s == "*" || star > 1 && star == len(s)-1 && strings.IndexByte(borders, s[star-1]) >= 0
}

// notInTool are characters that show that something else was meant than a tool.
const notInTool = " \t\r\n,;()!|&<>=\"'`"

// checkPattern says what is wrong with the name of a tool, or a pattern of such.
// Its text goes on after what says it.
func checkPattern(s string) error {
	switch at := strings.IndexAny(s, notInTool); {
	case s == "":
		return errors.New("has an empty tool name")
	case at >= 0:
		return fmt.Errorf("has tool %.64q, with %q, which no tool's name has: write a name, or several in quotes of their own", s, s[at])
	case IsPattern(s):
		return nil
	}
	return fmt.Errorf(`has tool %.64q, with a * where it means nothing: write "*" alone, or last after one of . _ - / :`, s)
}

// tryDeny refuses what the list denies.
func (p *Policy) tryDeny(e *Event) *Decision {
	if !p.denies(e.On) {
		return nil
	}
	guest, own := toolOf(e)
	if guest == "" {
		return nil
	}
	about := subject{Event: e}
	for _, d := range p.denied {
		if !matchOurs(d.tool, guest, true) && !match(d.tool, own, true) && !(e.Arranged && match(d.tool, e.Name, true)) {
			continue
		}
		refused := d.refuses(guest, &about)
		if refused != nil {
			return &Decision{Action: Block, Rule: ruleDeny, Layer: p.denyLayer, Reason: refused.reason, Code: refused.code}
		}
	}
	return nil
}

// twins are the names of those of hutch's own tools that have several: a rule about one
// name is about all.
var twins = [][]string{{"dir_list", "file_list", "fs.list"}, {"file_read", "fs.read"}, {"file_write", "fs.write"}, {"file_delete", "fs.delete"}}

// IsTwin tells whether a tool is one of hutch's own for files that another of a set does as
// well: "fs" is the set of fs.*, "file" that of the others, and of "" there is none.
func IsTwin(tool, set string) bool {
	return set != "" && strings.HasPrefix(tool, "fs.") == (set == "file") && slices.ContainsFunc(twins, func(names []string) bool { return slices.Contains(names, tool) })
}

// matchOurs is match of a tool by the name that a guest has for it, or of a twin.
func matchOurs(pattern, tool string, fold bool) bool {
	if match(pattern, tool, fold) {
		return true
	}
	for _, names := range twins {
		if slices.Contains(names, tool) {
			return slices.ContainsFunc(names, func(name string) bool { return match(pattern, name, fold) })
		}
	}
	return false
}

// refuses says why a call of a tool that d is about is denied.
func (d *denial) refuses(tool string, about *subject) *refusal {
	if d.path == "" {
		return refuse(ToolExplicitlyDenied, "tool %q is denied by %q", tool, d.text)
	}
	if about.Listing {
		return nil
	}
	paths, refused := about.paths()
	if refused != nil {
		return refused
	}
	if len(paths) == 0 {
		paths = []named{{"", workspace}} // where tools look if nothing is said
	}
	for _, at := range paths {
		all, refused := readings(at.text)
		if refused != nil {
			return refused
		}
		if slices.ContainsFunc(all, func(p string) bool { return below(p, d.path) }) {
			return refuse(ToolExplicitlyDenied, "tool %q with path %.200q is denied by %q", tool, at.text, d.text)
		}
	}
	return nil
}

// toolOf returns the name that a guest has for the tool that an event is about,
// and its server's own, both "" if it is about none. What is no call has the
// name of the tool that would do it. Of an arranged tool the first is server__tool, so
// that none is taken for a tool of hutch's own by the name that it was given.
func toolOf(e *Event) (guest, own string) {
	switch e.On {
	case OnRequest, OnResponse:
		if e.Method != "tools/call" {
			return "", ""
		}
	case OnFile:
		guest = "fs." + e.Operation
	case OnExec:
		guest = "cmd.run"
	case OnHTTP:
		guest = "http.request"
	default:
		return "", ""
	}
	if (e.Name == "" || e.Arranged) && e.Tool != "" {
		guest = e.Tool
		if e.Server != "" {
			guest = jsonrpc.Name(e.Server, e.Tool)
		}
	}
	if !e.Arranged {
		guest = cmp.Or(e.Name, guest)
	}
	own = e.Tool
	if own == "" {
		own = strings.TrimPrefix(guest, jsonrpc.Name(e.Server, ""))
	}
	return guest, own
}

// denies says whether the list may be about events of a kind.
func (p *Policy) denies(on string) bool {
	return len(p.denied) > 0 && on != OnAsk && on != OnResponse
}
