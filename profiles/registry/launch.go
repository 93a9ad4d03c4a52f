package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hutch/fs"
)

// Given is what a user gives to a run, by the names of inputs: of variables of
// the environment, headers, arguments, and of the variables within those.
type Given struct {
	Values map[string]string
	// Secrets go before Values. They are passed on as they are: references
	// while a run is set up, or what they stand for when it starts.
	Secrets map[string]string
	Args    []string // words behind the entry's own; in the place of those that the entry only proposes
}

// A Setting is a value that a run is given.
type Setting struct {
	Text   string
	Secret bool // it is, or has in it, a secret
}

// A Launch is what a run starts with.
type Launch struct {
	Run     string // as of Entry, with its variables' values
	URL     string // as of Entry, likewise
	Args    []Setting
	Env     map[string]Setting
	Headers map[string]Setting
	Paths   []string // the values that name files of the host, which the run may need to see
}

// A MissingError says which inputs a run needs that were not given.
type MissingError struct {
	Name   string // of the entry
	Inputs []Input
}

func (e *MissingError) Error() string {
	needs := make([]string, len(e.Inputs))
	for i, in := range e.Inputs {
		needs[i] = in.Name
		if in.Secret {
			needs[i] += " (secret)"
		}
		if in.Description != "" {
			needs[i] += ": " + fs.PlainLine(fs.Shorten(in.Description))
		}
	}
	return fmt.Sprintf("server %s needs %s", e.Name, strings.Join(needs, "; "))
}

// Unwrap returns the kind of the error.
func (e *MissingError) Unwrap() error { return fs.ErrInvalid }

// Launch returns what a run starts with that is given g. What is required and
// missing is a *MissingError; a value that its input does not take is another error.
// Names of g.Values that the entry does not know are variables of the environment.
func (e *Entry) Launch(g Given) (*Launch, error) {
	f := &filling{given: g, used: map[string]bool{}}
	l := &Launch{Env: map[string]Setting{}, Headers: map[string]Setting{}}
	run, lacking := f.fill(e.Run, e.Variables)
	for _, v := range lacking {
		if _, host := e.at(); strings.Contains(host, "{"+v.Name+"}") { // of a path it may be nothing
			f.lacks(v)
		}
	}
	if l.Run = run.Text; run.Secret {
		f.fail(errors.New("its URL is to have a secret in it, where status and logs would show that"))
	}
	for i := range e.Args {
		f.argument(l, &e.Args[i])
	}
	for _, word := range g.Args {
		l.Args = append(l.Args, Setting{Text: word})
	}
	for _, in := range e.Env {
		if s, ok := f.input(in); ok {
			l.Env[in.Name] = s
		}
	}
	for _, in := range e.Headers {
		if s, ok := f.input(in); ok {
			l.Headers[in.Name] = s
		}
	}
	at, _ := f.fill(e.URL, e.all())
	l.URL = at.Text
	f.rest(l)
	l.Paths = f.paths
	switch {
	case f.err != nil:
		return nil, fmt.Errorf("%w: server %s: %w", fs.ErrInvalid, e.Name, f.err)
	case len(f.missing) > 0:
		return nil, &MissingError{Name: e.Name, Inputs: f.missing}
	}
	return l, f.checkFilled(e, l)
}

// all returns the inputs that the URL of a server in a sandbox may name.
func (e *Entry) all() []Input {
	list := slices.Clone(e.Env)
	for _, a := range e.Args {
		list = append(list, a.Input)
		list = append(list, a.Variables...)
	}
	return list
}

// at returns the scheme and the host of a remote server's URL, with its port.
func (e *Entry) at() (scheme, host string) {
	scheme, host, _ = strings.Cut(e.Run, "://")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	return scheme, host
}

// checkFilled refuses a launch whose values make another server of it: what stands
// for the host, or a part of it, ends where the host does.
func (f *filling) checkFilled(e *Entry, l *Launch) error {
	if e.Remote() {
		scheme, host := e.at()
		u, err := url.Parse(l.Run)
		filled, _ := f.fill(host, e.Variables)
		if err != nil || u.Scheme != scheme || u.Hostname() == "" || u.Host != filled.Text {
			return fmt.Errorf("%w: server %s: with these values %.100q is no URL, or one of another host", fs.ErrInvalid, e.Name, e.Run)
		}
	}
	for _, all := range []map[string]Setting{l.Env, l.Headers} {
		for name, s := range all {
			if strings.ContainsRune(s.Text, 0) {
				return fmt.Errorf("%w: server %s: the value of %s has a NUL", fs.ErrInvalid, e.Name, name)
			}
		}
	}
	for _, s := range l.Args {
		if strings.ContainsRune(s.Text, 0) {
			return fmt.Errorf("%w: server %s: an argument has a NUL", fs.ErrInvalid, e.Name)
		}
	}
	return nil
}

// A filling puts what was given in the place of inputs.
type filling struct {
	given   Given
	used    map[string]bool // names of what was given
	missing []Input
	paths   []string
	err     error // the first
}

// argument adds the words of an argument.
func (f *filling) argument(l *Launch, a *Argument) {
	proposed := a.Flag == "" && a.Name == "" && a.Value == ""
	if proposed && len(f.given.Args) > 0 {
		return
	}
	s, ok := f.input(a.Input)
	switch {
	case !ok:
		return
	case a.Flag != "" && a.Format == "boolean" && a.Value == "": // the flag alone says it
		if s.Text == "true" {
			l.Args = append(l.Args, Setting{Text: a.Flag})
		}
		return
	case a.Flag != "":
		l.Args = append(l.Args, Setting{Text: a.Flag})
	}
	if s.Text != "" || a.Flag == "" {
		l.Args = append(l.Args, s)
	}
}

// input returns the value of an input, if it has one. Where it is not required, it
// has none without what stands in it.
func (f *filling) input(in Input) (Setting, bool) {
	if in.Value != "" {
		if s, ok := f.named(in.Name); ok && s.Text != in.Value {
			f.fail(fmt.Errorf("%s is set by the registry and cannot be given", in.Name))
		}
		s, lacking := f.fill(in.Value, in.Variables)
		s.Secret = s.Secret || in.Secret
		if in.Required {
			for _, v := range lacking {
				v.Secret = v.Secret || in.Secret
				f.lacks(v)
			}
		}
		return s, len(lacking) == 0
	}
	s, ok := f.named(in.Name)
	switch {
	case ok:
	case in.Default != "":
		s = Setting{Text: in.Default}
	case in.Required:
		f.lacks(in)
		return Setting{Secret: in.Secret}, false
	default:
		return Setting{}, false
	}
	f.check(in, s)
	s.Secret = s.Secret || in.Secret
	return s, true
}

// named returns what was given under a name.
func (f *filling) named(name string) (Setting, bool) {
	if name == "" {
		return Setting{}, false
	}
	f.used[name] = true
	if text, ok := f.given.Secrets[name]; ok {
		return Setting{text, true}, true
	}
	text, ok := f.given.Values[name]
	return Setting{Text: text}, ok
}

func (f *filling) lacks(in Input) {
	if !slices.ContainsFunc(f.missing, func(m Input) bool { return m.Name == in.Name }) {
		f.missing = append(f.missing, in)
	}
}

func (f *filling) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// check refuses a value that an input does not take. Of a secret, which may be
// a reference, nothing is known.
func (f *filling) check(in Input, s Setting) {
	if s.Secret {
		return
	}
	shown := fmt.Sprintf("%.60q", s.Text)
	if in.Secret {
		shown = "its value"
	}
	switch {
	case len(in.Choices) > 0 && !slices.Contains(in.Choices, s.Text):
		f.fail(fmt.Errorf("%s is one of %s, not %s", in.Name, fs.QuoteAll(in.Choices), shown))
	case in.Format == "boolean" && s.Text != "true" && s.Text != "false":
		f.fail(fmt.Errorf("%s is true or false, not %s", in.Name, shown))
	case in.Format == "number":
		if _, err := strconv.ParseFloat(s.Text, 64); err != nil {
			f.fail(fmt.Errorf("%s is a number, not %s", in.Name, shown))
		}
	case in.Format == "filepath" && !slices.Contains(f.paths, s.Text):
		f.paths = append(f.paths, s.Text)
	}
}

var placeholder = regexp.MustCompile(`\{[A-Za-z0-9_.-]+\}`)

// fill puts the values of variables in their place, and nothing for those that it
// returns, which have none. What is no variable's stays. A flag's dashes may be left out.
func (f *filling) fill(text string, variables []Input) (s Setting, lacking []Input) {
	secret := false
	filled := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := p[1 : len(p)-1]
		at := slices.IndexFunc(variables, func(v Input) bool { return v.Name == name || strings.TrimLeft(v.Name, "-") == name })
		if at < 0 {
			return p
		}
		v := variables[at]
		if v.Value != "" { // which has no variables of its own
			secret = secret || v.Secret
			return v.Value
		}
		s, ok := f.input(v)
		secret = secret || s.Secret
		if !ok {
			lacking = append(lacking, v)
			return ""
		}
		return s.Text
	})
	return Setting{Text: filled, Secret: secret}, lacking
}

// rest sets the variables of the environment that were given and of which the
// entry says nothing.
func (f *filling) rest(l *Launch) {
	for _, given := range []struct {
		values map[string]string
		secret bool
	}{{f.given.Values, false}, {f.given.Secrets, true}} {
		for name, text := range given.values {
			if f.used[name] {
				continue
			}
			if !variableName.MatchString(name) {
				f.fail(fmt.Errorf("%.60q is no name of an input, nor of a variable", name))
				continue
			}
			l.Env[name] = Setting{text, given.secret}
		}
	}
}
