package policy

import "strings"

// A subject is an event as constraints look at it: the paths, hosts and commands
// that it is about.
type subject struct {
	*Event
	args   value
	err    error
	parsed bool
}

// arguments returns the arguments of a call, which are parsed once.
func (s *subject) arguments() (*value, *refusal) {
	if !s.parsed {
		s.args, s.err = parseArgs(s.Args)
		s.parsed = true
	}
	if s.err != nil {
		return nil, refuse(ToolNotAllowed, "the arguments cannot be read: %v", s.err)
	}
	return &s.args, nil
}

// paths returns the paths that the event is about.
func (s *subject) paths() ([]named, *refusal) {
	if s.On == OnFile {
		return []named{{"path", s.Path}}, nil
	}
	args, refused := s.arguments()
	if refused != nil {
		return nil, refused
	}
	paths := args.named(isPathName)
	for _, n := range paths {
		if strings.ContainsAny(n.text, ",;:|\n") && !strings.HasSuffix(n.where, "[]") && isPlural(n.where) {
			return nil, refuse(PathOutsideBoundary, "%s may have several paths in one text: give them as a list", n.where)
		}
	}
	for _, n := range args.named(mayBePathName) {
		if strings.ContainsAny(n.text, `/\%~`) && (!isURL(n.text) || isFileURL(n.text)) {
			paths = append(paths, n)
		}
	}
	for _, u := range args.named(isURLName) { // file:///etc/passwd
		if isFileURL(u.text) && !mayBePathName(u.where) {
			paths = append(paths, u)
		}
	}
	return paths, nil
}

func isFileURL(text string) bool { return strings.HasPrefix(strings.ToLower(text), "file:") }

// hosts returns the hosts that the event is about, and URLs of such. A text
// that is a URL counts whatever its name.
func (s *subject) hosts() ([]named, *refusal) {
	args, refused := s.arguments()
	if refused != nil {
		return nil, refused
	}
	hosts := args.named(isURLName)
	for _, n := range args.named(mayBeHostName) {
		if n.text = strings.TrimSpace(n.text); n.text != "" && (!strings.ContainsAny(n.text, " \t\r\n") || isWebURL(n.text)) {
			hosts = append(hosts, n)
		}
	}
	for _, n := range args.named(func(name string) bool { return !isURLName(name) && !mayBeHostName(name) }) {
		if n.text = strings.TrimSpace(n.text); isWebURL(n.text) {
			hosts = append(hosts, n)
		}
	}
	return hosts, nil
}
