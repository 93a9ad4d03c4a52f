package policy

import (
	"fmt"
	"slices"
	"strings"
)

// cmdRun is hutch's own tool for commands, which no shell reads.
const cmdRun = "cmd.run"

// Characters that shells give a meaning: those that make two commands of one,
// and all.
const (
	joining = ";&|<>()$`\n\r\x00"
	shells  = joining + "\\\"'*?[]{}~!#"
)

// A line is a command with its arguments.
type line struct {
	where string
	words []string
}

// commands returns the commands that the event is about.
func (s *subject) commands() ([]line, *refusal) {
	if s.On == OnExec {
		return []line{{"command", append([]string{s.Command}, s.Words...)}}, nil
	}
	args, refused := s.arguments()
	if refused != nil {
		return nil, refused
	}
	var lines []line
	refused = args.commands("arguments", s.Name == cmdRun && !s.Arranged, &lines)
	return lines, refused
}

// commands adds the commands that v has, at any depth, to lines. Words that go
// to a server which may give them to a shell must not have what joins commands.
func (v *value) commands(where string, safe bool, lines *[]line) *refusal {
	var arguments [][]string // of each member that has such: a server may read any of them
	var found, all []line
	for i := range v.parts {
		part := &v.parts[i]
		at := where + "." + part.name
		if part.name == "" {
			at = where + "[]"
		}
		switch {
		case part.name != "" && isCommandName(part.name):
			more, refused := part.lines(at)
			if refused != nil {
				return refused
			}
			found = append(found, more...)
		case part.name != "" && isWordsName(part.name) && part.kind != '{':
			more, refused := part.words(at)
			if refused != nil {
				return refused
			}
			arguments = append(arguments, more)
		}
		if part.kind == '{' || part.kind == '[' {
			if refused := part.commands(at, safe, lines); refused != nil {
				return refused
			}
		}
	}
	if len(found) == 0 && len(slices.Concat(arguments...)) > 0 {
		found = []line{{where, nil}} // the first word is the command
	}
	for _, l := range found {
		for _, words := range arguments {
			if more := slices.Concat(l.words, words); len(more) > 0 {
				all = append(all, line{l.where, more})
			}
		}
		if len(arguments) == 0 {
			all = append(all, l)
		}
	}
	for _, l := range all {
		for _, w := range l.words {
			if i := strings.IndexAny(w, joining); i >= 0 && !safe {
				return refuse(CommandNotAllowed, "%s has %q in %.200q, which means something to a shell", l.where, w[i], w)
			}
		}
		*lines = append(*lines, l)
	}
	return nil
}

// lines returns the commands of an argument that is for such: a text, a list
// of the words of one, or objects, which are gone into by themselves.
func (v *value) lines(where string) ([]line, *refusal) {
	switch {
	case v.kind == '"':
		words, refused := split(v.text, where)
		return []line{{where, words}}, refused
	case v.kind == '[' && isPlural(v.name): // several
		var all []line
		for i := range v.parts {
			more, refused := v.parts[i].lines(where)
			if refused != nil {
				return nil, refused
			}
			all = append(all, more...)
		}
		return all, nil
	case v.kind == '[':
		words, refused := v.words(where)
		return []line{{where, words}}, refused
	case v.kind == '{':
		return nil, nil
	}
	return nil, refuse(CommandNotAllowed, "%s is no text", where)
}

// words returns the words that a list of texts is, or a text.
func (v *value) words(where string) ([]string, *refusal) {
	if v.kind == '"' {
		return split(v.text, where)
	}
	var words []string
	for i := range v.parts {
		if v.parts[i].kind != '"' {
			return nil, refuse(CommandNotAllowed, "%s has something in it that is no text", where)
		}
		words = append(words, v.parts[i].text)
	}
	return words, nil
}

// split returns the words of a command in one text. What shells and other
// programs would not split alike is refused.
func split(text, where string) ([]string, *refusal) {
	if i := strings.IndexAny(text, shells); i >= 0 {
		return nil, refuse(CommandNotAllowed, "%s has %q in it, which means something to a shell: give the command and its arguments as a list", where, text[i])
	}
	words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(words) == 0 {
		return nil, refuse(MissingCommand, "%s is empty", where)
	}
	return words, nil
}

// checkLine refuses a command that is not among those that c allows, or whose
// first argument is not.
func (c *capability) checkLine(l line) *refusal {
	name := l.words[0]
	known := false
	var firsts []string
	for _, command := range c.limited {
		if !matchWord(command.name, name) {
			continue
		}
		known = true
		if len(command.firsts) == 0 || len(l.words) > 1 && matchWords(command.firsts, l.words[1]) {
			return nil
		}
		firsts = append(firsts, command.firsts...)
	}
	switch {
	case !known && matchWords(c.Commands, name):
		return nil
	case !known:
		return refuse(CommandNotAllowed, "command %.200q is not among %s", name, orNothing(c.commandNames()))
	case len(l.words) < 2:
		return refuse(SubcommandNotAllowed, "command %.200q has no first argument, which must be one of %s", name, orNothing(firsts))
	}
	return refuse(SubcommandNotAllowed, "first argument %.200q of command %.200q is not among %s", l.words[1], name, orNothing(firsts))
}

func (c *capability) commandNames() []string {
	names := slices.Clone(c.Commands)
	for _, command := range c.limited {
		names = append(names, command.name)
	}
	return names
}

func matchWords(allowed []string, word string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool { return matchWord(a, word) })
}

// matchWord tells whether a word is the one that is allowed, or where that is
// an absolute path whether it is that or below it. A relative path is not: who
// runs the command may be anywhere.
func matchWord(allowed, word string) bool {
	if !strings.HasPrefix(allowed, "/") {
		return allowed == word
	}
	if !strings.HasPrefix(word, "/") {
		return false
	}
	all, refused := readings(word)
	return refused == nil && !slices.ContainsFunc(all, func(p string) bool { return !below(p, allowed) })
}

// compileWord returns a word as matchWord wants it. Its error goes on after what says it.
func compileWord(word string) (string, error) {
	switch {
	case word == "":
		return "", fmt.Errorf("has an empty word")
	case strings.HasPrefix(word, "/"):
		return compilePath(word)
	case strings.Contains(word, "*"):
		return "", fmt.Errorf("has %.64q: a * means nothing here", word)
	case strings.ContainsAny(word, " \t\r\n\x00"):
		return "", fmt.Errorf("has %.64q, with a blank in it, which no word has: say the command alone", word)
	}
	return word, nil
}
