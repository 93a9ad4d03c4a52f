package runconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"hutch/fs"
)

// How much of each there may be.
const (
	maxArgs     = 1024
	maxWord     = 32 << 10 // bytes of an argument or a value
	maxNames    = 256      // variables, labels, secrets, parameters, scopes
	maxTools    = 1024
	maxTool     = 256 // bytes of a tool's name
	maxMounts   = 32
	maxHeaders  = 64
	maxDescribe = 64 << 10 // bytes of a description
)

func tooMany(path string, n, most int) *Fault {
	if n <= most {
		return nil
	}
	return faultf(path, "has %d: at most %d", n, most)
}

func (s *Server) checkCommand() *Fault {
	for _, list := range []struct {
		path    string
		n, most int
	}{{"cmd_args", len(s.Args), maxArgs}, {"env_vars", len(s.Env), maxNames}, {"secrets", len(s.Secrets), maxNames}, {"container_labels", len(s.Labels), maxNames}} {
		if fault := tooMany(list.path, list.n, list.most); fault != nil {
			return fault
		}
	}
	for i, arg := range s.Args {
		if strings.ContainsRune(arg, 0) || len(arg) > maxWord {
			return faultf(fmt.Sprintf("cmd_args[%d]", i), "has a NUL in it or more than %d bytes", maxWord)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value := s.Env[name]
		switch {
		case name == "" || len(name) > 256 || strings.ContainsAny(name, "=/") || strings.ContainsFunc(name, unicode.IsControl):
			return faultf("env_vars", "has %.64q, which is no name of a variable", name)
		case strings.ContainsRune(value, 0) || len(value) > maxWord:
			return faultf("env_vars."+name, "has a NUL in it or more than %d bytes", maxWord)
		}
	}
	seen := make(map[string]bool)
	for i, secret := range s.Secrets {
		if seen[secret.Variable] {
			return faultf(fmt.Sprintf("secrets[%d]", i), "has the target %s, which another has", secret.Variable)
		}
		seen[secret.Variable] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		value := s.Labels[name]
		if name == "" || len(name) > 256 || len(value) > maxWord || strings.ContainsFunc(name+value, unicode.IsControl) {
			return faultf("container_labels", "has %.64q, which is no label of shown characters", name)
		}
	}
	return checkArgs(s.Args)
}

func (s *Server) checkTools() *Fault {
	if fault := tooMany("tools_filter", len(s.Tools), maxTools); fault != nil {
		return fault
	}
	if fault := tooMany("tools_override", len(s.Overrides), maxTools); fault != nil {
		return fault
	}
	for i, name := range s.Tools {
		if !isTool(name) {
			return faultf(fmt.Sprintf("tools_filter[%d]", i), "%.64q is no name of a tool", name)
		}
	}
	names := make(map[string]string)
	for _, tool := range slices.Sorted(maps.Keys(s.Overrides)) {
		o := s.Overrides[tool]
		path := "tools_override." + tool
		switch {
		case hideWords(tool) != tool, hideWords(o.Name) != o.Name:
			return secretf("tools_override", "has what looks like a secret for the name of a tool")
		case !isTool(tool):
			return faultf("tools_override", "has %.64q, which is no name of a tool", tool)
		case o == Override{}:
			return faultf(path, "says no name and no description")
		case o.Name != "" && !isTool(o.Name):
			return faultf(path+".name", "%.64q is no name of a tool", o.Name)
		case o.Name != "" && names[o.Name] != "":
			return faultf(path+".name", "%.64q is what %.64q is called, too", o.Name, names[o.Name])
		case len(o.Description) > maxDescribe:
			return faultf(path+".description", "has more than %d bytes", maxDescribe)
		}
		names[o.Name] = tool
	}
	return nil
}

func isTool(name string) bool {
	return name != "" && len(name) <= maxTool && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}

func (s *Server) checkMounts() *Fault {
	if fault := tooMany("volumes", len(s.Mounts), maxMounts); fault != nil {
		return fault
	}
	seen := make(map[string]bool)
	for i, m := range s.Mounts {
		if seen[m.Guest] {
			return faultf(fmt.Sprintf("volumes[%d]", i), "is at %s, where another is", m.Guest)
		}
		seen[m.Guest] = true
	}
	return nil
}

func (s *Server) checkHeaders() *Fault {
	const plain, secret = "header_forward.add_plaintext_headers", "header_forward.add_headers_from_secret"
	if fault := tooMany("header_forward", len(s.Headers)+len(s.SecretHeaders), maxHeaders); fault != nil {
		return fault
	}
	if s.Transport == Stdio && len(s.Headers)+len(s.SecretHeaders) > 0 {
		return faultf("header_forward", "does not go with transport %s, which has no headers", Stdio)
	}
	seen := make(map[string]bool)
	check := func(path, name string) *Fault {
		low := strings.ToLower(name)
		switch {
		case name == "" || len(name) > 256 || strings.ContainsFunc(name, fs.NotIn("!#$%&'*+-.^_`|~")):
			return faultf(path, "has %.64q, which is no name of a header", name)
		case seen[low]:
			return faultf(path, "has %.64q, which stands there twice, or in the other list, too", name)
		}
		seen[low] = true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value := s.Headers[name]
		if fault := check(plain, name); fault != nil {
			return fault
		}
		if len(value) > maxWord || strings.ContainsAny(value, "\x00\r\n") {
			return faultf(plain+"."+name, "has a line end or NUL in it, or more than %d bytes", maxWord)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.SecretHeaders)) {
		if fault := check(secret, name); fault != nil {
			return fault
		}
	}
	return nil
}

func (s *Server) checkAuth() *Fault {
	a := s.Auth
	if a == nil {
		return nil
	}
	const at = "remote_auth_config"
	if !s.IsRemote() && s.Source.Kind != "" {
		return faultf(at, "goes with remote_url: a server that runs here is asked by nobody else")
	}
	for _, u := range []struct{ name, text string }{{".issuer", a.Issuer}, {".authorize_url", a.AuthorizeURL}, {".token_url", a.TokenURL}} {
		if fault := checkURL(at+u.name, u.text); fault != nil {
			return fault
		}
	}
	if a.CallbackPort < 0 || a.CallbackPort > 65535 {
		return faultf(at+".callback_port", "is %d: ports are 1 to 65535", a.CallbackPort)
	}
	if a.Timeout < 0 || a.Timeout > time.Hour {
		return faultf(at+".timeout", "is %v: up to 1h, in nanoseconds", a.Timeout)
	}
	if fault := tooMany(at+".scopes", len(a.Scopes), maxNames); fault != nil {
		return fault
	}
	for i, scope := range a.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return faultf(fmt.Sprintf("%s.scopes[%d]", at, i), "%.64q is no scope", scope)
		}
	}
	return tooMany(at+".oauth_params", len(a.Params), maxNames)
}
