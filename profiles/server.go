package profiles

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"hutch/aggd/jsonrpc"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles/reference"
)

// decodeServers reads the table of servers.
func decodeServers(p *Profile, table map[string]any, at key) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := at.with(name)
		s := &Server{Server: wire.Server{Name: name, Enabled: true, Source: "profile"}, Sandboxed: true}
		if err := CheckServerName(name); err != nil {
			return at.faultf("server name %.64q %v", name, err)
		}
		says, ok := table[name].(map[string]any)
		if !ok {
			return at.want("a table")
		}
		if err := decodeTable(target{p: p, s: s}, says, at, ofServer); err != nil {
			return err
		}
		if err := s.reach(says, at); err != nil {
			return err
		}
		if err := s.checkReferences(at); err != nil {
			return err
		}
		p.Servers = append(p.Servers, *s)
	}
	return nil
}

// sameNames has servers say what has several names by the first of them, and
// each in one place only.
func (d *document) sameNames() error {
	servers, _ := d.table["mcpServers"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		server, _ := servers[name].(map[string]any)
		for i := range Keys {
			if k := &Keys[i]; k.same != "" {
				if err := d.sameName(k, server, key{"mcpServers", name}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sameName moves what the server at says by the name of k.
func (d *document) sameName(k *Key, server map[string]any, at key) error {
	names := strings.Split(strings.TrimPrefix(k.Name, ofServer), ".")
	table := server
	for _, name := range names[:len(names)-1] {
		table, _ = table[name].(map[string]any)
		at = at.with(name)
	}
	last := names[len(names)-1]
	v, ok := table[last]
	if !ok {
		return nil
	}
	if k.kind == isNoFlag {
		is, ok := v.(bool)
		if !ok {
			return d.fault(at.with(last).want("true or false"))
		}
		v = !is
	}
	same := strings.TrimPrefix(k.same, ofServer)
	line := d.at(at.with(last)).line
	if _, said := server[same]; said {
		wrong := at.with(last).faultf("%s says the same: remove one", same)
		if same == last {
			wrong = at.with(last).faultf("%s stands in another place too: remove one", last)
		}
		return d.fault(wrong)
	}
	delete(table, last)
	server[same] = v
	d.lines[at[:2].with(same).String()] = line
	return nil
}

// fault says where in the document it is.
func (d *document) fault(f *fault) error {
	f.at = d.at(f.key)
	return f
}

// CheckServerName says why tools cannot be named after a server: a tool is
// SERVER__TOOL, split at the first two underscores. Its text goes on after the
// name.
func CheckServerName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty: give it one")
	case name == "builtin" || name == "local":
		return errors.New("is taken by the built-in tools: choose another")
	case strings.Contains(name, jsonrpc.Separator):
		return errors.New("has two underscores in a row, which end a server's name in a tool's: choose another")
	case strings.HasSuffix(name, "_"):
		return errors.New("ends with an underscore, which would be lost in a tool's name: choose another")
	case len(name) > 64:
		return errors.New("is longer than 64 bytes: choose another")
	case strings.ContainsFunc(name, fs.NotIn("_-")):
		return errors.New("has other characters than letters, digits, dashes and underscores: choose another")
	}
	return nil
}

// checkReferences says which value only begins as a reference to a secret.
func (s *Server) checkReferences(at key) error {
	for _, in := range []struct {
		name  string
		table map[string]string
	}{{"env", s.Env}, {"headers", s.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(in.table)) {
			if _, _, err := reference.Parse(in.table[name]); err != nil {
				return at.with(in.name).with(name).faultf("%s: %s", name, err)
			}
		}
	}
	if _, _, err := reference.Parse(s.BearerToken); err != nil {
		return at.with("bearer_token").faultf("bearer_token: %s", err)
	}
	return nil
}

// reach sets how the server is reached.
func (s *Server) reach(says map[string]any, at key) error {
	switch {
	case s.Session != "":
		return s.bySession(says, at)
	case s.Command == "" && s.URL == "" && s.Image == "":
		return at.faultf("server %s has no command and no url: give it one of them", s.Name)
	case s.Command != "" && s.URL != "":
		return at.faultf("server %s has both a command and a url: remove one", s.Name)
	case s.URL == "":
		return s.byCommand(says, at)
	}
	return s.byURL(says, at)
}

// Keys that mean something of a URL only, of a command, and of where that runs.
var (
	ofURL     = []string{"type", "headers", "bearer_token"}
	ofCommand = []string{"args", "env", "dir", "sandbox"}
	ofSandbox = []string{"image", "ram", "disk", "shared", "permissions", "read", "write", "allow"}
	ofHost    = []string{"run_as"}
)

// saysOf returns the first of keys that a table has, "" if it has none.
func saysOf(says map[string]any, keys ...[]string) string {
	for _, k := range slices.Concat(keys...) {
		if says[k] != nil {
			return k
		}
	}
	return ""
}

func (s *Server) byCommand(says map[string]any, at key) error {
	if s.Type != "" && s.Type != "stdio" {
		return at.with("type").faultf(`type %.64q of server %s does not go with a command: write "stdio" or remove it`, s.Type, s.Name)
	}
	s.Type = "stdio"
	switch wrong := "server %s has a command, and %s with a url: remove one"; {
	case s.Headers != nil:
		return at.with("headers").faultf(wrong, s.Name, "headers go")
	case s.BearerToken != "":
		return at.with("bearer_token").faultf(wrong, s.Name, "bearer_token goes")
	}
	if k := saysOf(says, ofHost); k != "" && s.Sandboxed {
		return at.with(k).faultf("server %s runs in a sandbox, and %s goes with sandbox = false: add that, or remove it", s.Name, k)
	}
	if strings.ContainsFunc(s.Image, fs.NotIn("._-/:@")) {
		return at.with("image").faultf("image %.64q of server %s is neither the name of one below images nor a reference like ghcr.io/OWNER/NAME:TAG", s.Image, s.Name)
	}
	if k := saysOf(says, ofSandbox); k != "" && !s.Sandboxed {
		return at.with(k).faultf("server %s has sandbox = false, and %s goes with a sandbox: remove one", s.Name, k)
	}
	return nil
}

// bySession has the server be a session of one of servers/. What that is, its own
// config says.
func (s *Server) bySession(says map[string]any, at key) error {
	s.Sandboxed = false
	if name, ok := strings.CutPrefix(s.Session, "groups/"); ok {
		return at.with("server").faultf("server %s is a group, %.64q, which a profile cannot have: say each of its members, with server = \"NAME\"", s.Name, name)
	}
	if err := CheckServerName(s.Session); err != nil {
		return at.with("server").faultf("server %.64q of server %s %v", s.Session, s.Name, err)
	}
	if k := saysOf(says, []string{"command", "url"}, ofURL, ofCommand, ofSandbox, ofHost); k != "" {
		return at.with(k).faultf("server %s is servers/%s, whose config says what it is, and has %s: remove one", s.Name, s.Session, k)
	}
	s.Type = "stdio"
	return nil
}

func (s *Server) byURL(says map[string]any, at key) error {
	s.Sandboxed = false
	if k := saysOf(says, ofCommand, ofSandbox, ofHost); k != "" {
		return at.with(k).faultf("server %s has a url, and %s goes with a command: remove one", s.Name, k)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return at.with("url").faultf("url %.64q of server %s is no URL like https://host/path", s.URL, s.Name)
	}
	for name := range s.Headers {
		if s.BearerToken != "" && strings.EqualFold(name, "Authorization") {
			return at.with("headers").with(name).faultf("bearer_token says the same as header %s: remove one", name)
		}
	}
	switch s.Type {
	case "", "http", "streamable-http", "streamable_http", "streamableHttp":
		s.Type = "http"
	case "sse":
	default:
		return at.with("type").faultf(`type %.64q of server %s does not go with a url: write "http" or "sse"`, s.Type, s.Name)
	}
	return nil
}
