package alone

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"hutch/aggd/rawjson"
	"hutch/aggd/wire"
)

// What a file may have. All servers together are one line to the aggregator, which is
// no longer than 1 MiB with every byte escaped.
const (
	maxFile    = 16 << 20  // bytes: clients keep more than servers in theirs
	maxServers = 512       // as many programs as may run
	maxTexts   = 128 << 10 // bytes of all that is said of servers, with variables put in
)

// A Server is one of the file.
type Server struct {
	Key string // its own, any text
	wire.Server
	Wrong error // why it cannot be connected
}

// ReadFile reads the servers of a file. Programs get the environment env and what
// the file has for them, and begin in the folder dir unless the file says another.
func ReadFile(path, dir string, env []string) ([]Server, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would have it wait
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not an ordinary file: name one", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	servers, err := parse(text, variables(env))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range servers {
		servers[i].inherit(dir, env)
	}
	return servers, nil
}

// parse returns the servers that a file names, in its order, without those that it
// disables. What is wrong with one of them is its Wrong.
func parse(text []byte, env map[string]string) ([]Server, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, rawjson.ErrUTF8
	}
	text = rawjson.Plain(text)
	var table []byte
	err := rawjson.Object(text, rawjson.MaxDepth, func(name []byte, start, end int) error {
		if string(name) != "mcpServers" {
			return nil
		}
		if table != nil {
			return errors.New(`it has "mcpServers" twice: remove one`)
		}
		table = text[start:end]
		return nil
	})
	switch {
	case errors.Is(err, rawjson.ErrType), err == nil && table == nil:
		return nil, errors.New(`it has no "mcpServers": {…}`)
	case err != nil:
		return nil, err
	}
	return parseServers(table, &expander{env: env, left: maxTexts})
}

// parseServers reads the table of servers.
func parseServers(table []byte, x *expander) (servers []Server, err error) {
	known := make(map[string]bool)
	err = rawjson.Object(table, rawjson.MaxDepth, func(name []byte, start, end int) error {
		key := string(name)
		switch {
		case known[key]:
			return fmt.Errorf("two servers have the key %.64q: rename one", key)
		case len(servers) >= maxServers:
			return fmt.Errorf("it has more than %d servers", maxServers)
		}
		known[key] = true
		x.left -= len(internal(key))
		s, enabled, fault := parseServer(table[start:end], x)
		s.Key, s.Wrong = key, fault
		s.Name = internal(key)
		if enabled {
			servers = append(servers, s)
		}
		if x.left < 0 {
			return fmt.Errorf("its servers take more than %d bytes together", maxTexts)
		}
		return nil
	})
	if errors.Is(err, rawjson.ErrType) {
		err = errors.New(`"mcpServers" is no object: write {"KEY": {…}}`)
	}
	return servers, err
}

// An entry is a server as clients write it. They have more for it, which says how
// they use it and nothing of what it is.
type entry struct {
	Type      string          `json:"type"`
	Transport json.RawMessage `json:"transport"` // some clients' type; Cline's object of what is here but disabled

	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"cwd"`

	URL       string            `json:"url"`
	ServerURL string            `json:"serverUrl"` // some clients' url
	HTTPURL   string            `json:"httpUrl"`   // others'
	Headers   map[string]string `json:"headers"`

	Disabled bool  `json:"disabled"`
	Enabled  *bool `json:"enabled"` // others' way to say it
}

// types are the values of type and transport in small letters, and what they mean to
// the aggregator.
var types = map[string]string{
	"": "", "stdio": "stdio", "local": "stdio", "sse": "sse",
	"http": "http", "streamable-http": "http", "streamable_http": "http", "streamablehttp": "http",
}

// parseServer reads one server.
func parseServer(text []byte, x *expander) (s Server, enabled bool, err error) {
	if err := rawjson.Unique(text); err != nil {
		return s, true, err
	}
	var e entry
	err = json.Unmarshal(text, &e)
	if err == nil {
		err = e.unpack()
	}
	if err != nil {
		return s, true, mistyped(err)
	}
	if e.Disabled || e.Enabled != nil && !*e.Enabled {
		return s, false, nil
	}
	if err := x.entry(&e); err != nil {
		return s, true, err
	}
	return e.server()
}

// unpack takes what a transport that is an object says. It may not stand beside it, too:
// nobody knows then which of them is meant.
func (e *entry) unpack() error {
	inner := e.Transport
	if len(inner) == 0 || inner[0] != '{' {
		return nil
	}
	e.Transport = nil
	var in entry
	if err := json.Unmarshal(inner, &in); err != nil {
		return err
	}
	for _, member := range []struct {
		name  string
		twice bool
	}{
		{"type", !sameType(e.Type, in.Type)},
		{"command", e.Command != "" && in.Command != ""},
		{"args", e.Args != nil && in.Args != nil},
		{"env", e.Env != nil && in.Env != nil},
		{"cwd", e.Dir != "" && in.Dir != ""},
		{"url", e.url() != "" && in.url() != ""},
		{"headers", e.Headers != nil && in.Headers != nil},
	} {
		if member.twice {
			return fmt.Errorf(`%q is in "transport" and beside it: say it once`, member.name)
		}
	}
	return json.Unmarshal(inner, e)
}

// url returns the URL, by whichever name it has.
func (e *entry) url() string { return cmp.Or(e.URL, e.ServerURL, e.HTTPURL) }

// sameType says whether two types can both be said of a server.
func sameType(a, b string) bool {
	return a == "" || b == "" || types[strings.ToLower(a)] == types[strings.ToLower(b)]
}

// mistyped says in words for who wrote the file what is wrong with a value.
func mistyped(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("write an object, {…}, not the %s that it is", wrong.Value)
	}
	return fmt.Errorf("%.64q takes no %s", wrong.Field, wrong.Value)
}

// server returns what the entry means.
func (e entry) server() (s Server, enabled bool, err error) {
	e.URL = e.url()
	kind := ""
	if e.Transport != nil {
		if json.Unmarshal(e.Transport, &kind) != nil {
			return s, true, errors.New(`"transport" takes a text or an object`)
		}
	}
	if !sameType(e.Type, kind) {
		return s, true, fmt.Errorf(`"type" is %.40q and "transport" %.40q: say it once`, e.Type, kind)
	}
	kind = cmp.Or(e.Type, kind)
	means, known := types[strings.ToLower(kind)]
	switch {
	case !known:
		err = fmt.Errorf("type %.40q is not known: write stdio, http or sse", kind)
	case e.Command == "" && e.URL == "":
		err = errors.New("it has neither a command nor a url: give it one")
	case e.Command != "" && e.URL != "":
		err = errors.New("it has both a command and a url: remove one")
	case e.Command == "" && means == "stdio", e.URL == "" && means != "stdio" && means != "":
		err = fmt.Errorf("type %.40q does not go with it: remove the type", kind)
	default:
		err = checkEnv(e.Env)
	}
	s.Server = wire.Server{
		Type: means, Enabled: true, Keep: true, URL: e.URL, Headers: e.Headers,
		ConnectTimeout: connectTime, CallTimeout: callTime,
		Program: wire.Program{Command: e.Command, Args: e.Args, Env: e.Env, Dir: e.Dir},
	}
	if e.URL != "" {
		s.Health = healthTime
	}
	return s, true, err
}

// checkEnv refuses what no program can have in its environment.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return fmt.Errorf("env %.64q cannot be set", name)
		}
	}
	return nil
}

// inherit gives a program the folder and the environment of this one where the file
// has nothing else.
func (s *Server) inherit(dir string, env []string) {
	if s.Command == "" {
		return
	}
	if !filepath.IsAbs(s.Dir) {
		s.Dir = filepath.Join(dir, s.Dir)
	}
	if strings.Contains(s.Command, "/") && !filepath.IsAbs(s.Command) {
		s.Command = filepath.Join(s.Dir, s.Command)
	}
	all := variables(env)
	maps.Copy(all, s.Env)
	s.Env = all
}

// variables returns an environment by name.
func variables(env []string) map[string]string {
	all := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			all[name] = value
		}
	}
	return all
}
