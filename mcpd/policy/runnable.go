package policy

import (
	"fmt"
	"path"
	"strings"

	"hutch/fs"
)

// RuleCommands is what blocks a command of cmd.run that the profile does not list.
const RuleCommands = "cmd.allow"

// tryCommands refuses a command that is not among those that may run, or whose
// first argument is not among those that it may have.
func (p *Policy) tryCommands(e *Event) *Decision {
	if !p.hasCommands(e.On) {
		return nil
	}
	block := func(code *Code, format string, a ...any) *Decision {
		return &Decision{Action: Block, Rule: RuleCommands, Reason: fmt.Sprintf(format, a...), Code: code, firm: true}
	}
	firsts, ok := p.runnable[e.Command]
	switch {
	case !ok:
		return block(CommandNotAllowed, "command %.200q is not among those that may run", e.Command)
	case len(firsts) == 0:
		return nil
	case len(e.Words) == 0:
		return block(SubcommandNotAllowed, "command %s needs a first argument: %s", e.Command, fs.QuoteAll(firsts))
	}
	for _, f := range firsts {
		if f == e.Words[0] || path.IsAbs(f) && leadsBelow(e.Words[0], e.Dir, path.Clean(f)) {
			return nil
		}
	}
	return block(SubcommandNotAllowed, "first argument %.200q of command %s is not among those that may be: %s", e.Words[0], e.Command, fs.QuoteAll(firsts))
}

// hasCommands says whether the list may be about events of a kind.
func (p *Policy) hasCommands(on string) bool { return p.runnable != nil && on == OnExec }

// leadsBelow tells whether an argument is a path, and leads to a folder or below
// it. A relative one has to begin with "./", as it could be anything else.
func leadsBelow(arg, dir, folder string) bool {
	if strings.HasPrefix(arg, "./") {
		arg = path.Join(dir, arg)
	}
	return path.IsAbs(arg) && below(path.Clean(arg), folder)
}
