package profiles

import (
	"errors"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hutch/aggd/guard"
)

// What a VM may be limited to.
const (
	minCPUs, maxCPUs = 0.05, 1024
	minPIDs, maxPIDs = 16, 1 << 22
	minRAM, minDisk  = 64 << 20, 1 << 20
	minRecords       = 4 << 20
	minPending       = 2 << 20
)

// check refuses what no VM could have.
func (f *file) check() error {
	for _, v := range []struct{ key, value string }{{"image", f.Image}, {"driver", f.Driver}} {
		if v.value == "" {
			continue
		}
		if err := checkName(v.value); err != nil {
			return key{v.key}.faultf("%q %s", shorten(v.value), err)
		}
	}
	if f.Kernel != "" && !filepath.IsAbs(f.Kernel) {
		return key{"kernel"}.faultf("%q is not an absolute path", shorten(f.Kernel))
	}
	if f.CPUs != 0 && !(f.CPUs >= minCPUs && f.CPUs <= maxCPUs) {
		return key{"cpus"}.faultf("%v is no number of processors: write one from %v to %v", f.CPUs, minCPUs, maxCPUs)
	}
	if f.PIDs != 0 && (f.PIDs < minPIDs || f.PIDs > maxPIDs) {
		return key{"pids"}.faultf("%d is no number of processes: write one from %d to %d", f.PIDs, minPIDs, maxPIDs)
	}
	for _, least := range []struct {
		key  key
		size size
		n    int64
		text string
	}{{key{"ram"}, f.RAM, minRAM, "64MiB"}, {key{"disk"}, f.Disk, minDisk, "1MiB"}, {key{"records"}, f.Records, minRecords, "4MiB"}, {key{"mcp", "max_pending"}, f.MCP.MaxPending, minPending, "2MiB"}} {
		if n, err := least.size.bytes(least.key); err == nil && n != 0 && n < least.n {
			return least.key.faultf("%s is too small: write %s or more", least.size, least.text)
		}
	}
	for _, least := range []struct {
		key  string
		time duration
	}{{"idle", f.Idle}, {"ttl", f.TTL}} {
		if d, err := least.time.time(key{least.key}); err == nil && d != 0 && d < time.Second {
			return key{least.key}.faultf("%s is too short: write a second or more", least.time)
		}
	}
	if f.Net != "" && f.Net != "none" && f.Net != "host-proxy" {
		return key{"net"}.faultf(`%q is no network: write "none" or "host-proxy"`, shorten(f.Net))
	}
	if err := checkEnv(f.Env, key{"env"}); err != nil {
		return err
	}
	for _, host := range f.HTTP.Allow {
		if !isHost(host) {
			return key{"http", "allow"}.faultf("%q is no host name, address or network such as 10.0.0.0/8", shorten(host))
		}
	}
	return f.Network.check(key{"network"})
}

func (n *network) check(at key) error {
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"allow", n.Allow}, {"block", n.Block}} {
		for _, p := range list.patterns {
			if _, err := guard.ParsePattern(p); err != nil {
				return at.with(list.key).faultf("%v: write a host as \"pypi.org\", \"*.debian.org\" or \"localhost:8080\"", err)
			}
		}
	}
	for _, host := range n.Private {
		if !isHost(host) {
			return at.with("private").faultf("%q is no host name, address or network such as 10.0.0.0/8", shorten(host))
		}
	}
	return nil
}

// checkName refuses what cannot be the name of a file in a folder of names.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > 200:
		return errors.New("is too long")
	case name[0] == '.' || name[0] == '-':
		return errors.New("starts with a dot or a dash")
	case strings.IndexFunc(name, notIn("._-")) >= 0:
		return errors.New("has other characters than letters, digits, dots, dashes and underscores")
	}
	return nil
}

// notIn returns a test for what is no ASCII letter, no digit and none of others.
func notIn(others string) func(rune) bool {
	return func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(others, c)
	}
}

// checkServerName refuses names that tools cannot be named after: a tool is
// SERVER__TOOL, split at the first two underscores.
func checkServerName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty: give it one")
	case name == "builtin" || name == "local":
		return errors.New("is taken by the built-in tools: choose another")
	case strings.Contains(name, "__"):
		return errors.New("has two underscores in a row, which end a server's name in a tool's: choose another")
	case strings.HasSuffix(name, "_"):
		return errors.New("ends with an underscore, which would be lost in a tool's name: choose another")
	case len(name) > 64:
		return errors.New("is longer than 64 bytes: choose another")
	case strings.IndexFunc(name, notIn("_-")) >= 0:
		return errors.New("has other characters than letters, digits, dashes and underscores: choose another")
	}
	return nil
}

func (s *server) check(name string, at key) error {
	if err := checkServerName(name); err != nil {
		return at.faultf("server name %q %s", shorten(name), err)
	}
	if err := checkEnv(s.Env, at.with("env")); err != nil {
		return err
	}
	for name, value := range s.Headers {
		if name == "" || strings.IndexFunc(name, notIn("!#$%&'*+-.^_`|~")) >= 0 {
			return at.with("headers").faultf("%q is no name of a header", shorten(name))
		}
		if strings.ContainsAny(value, "\x00\r\n") {
			return at.with("headers").with(name).faultf("the value of header %s has a line end or NUL in it", name)
		}
		if s.Token != "" && strings.EqualFold(name, "Authorization") {
			return at.with("headers").with(name).faultf("bearer_token says the same as header %s: remove one", name)
		}
	}
	for _, v := range append([]string{s.Command, s.Dir, s.Token}, s.Args...) {
		if strings.ContainsRune(v, 0) {
			return at.faultf("server %s has a NUL in it", name)
		}
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return at.with("dir").faultf("dir %q of server %s is no absolute path", shorten(s.Dir), name)
	}
	return checkPatterns(name, s, at)
}

func checkPatterns(name string, s *server, at key) error {
	for _, pattern := range slices.Concat(s.AllowedTools, s.BlockedTools) {
		switch {
		case pattern == "":
			return at.faultf("server %s has an empty tool name in its lists", name)
		case strings.HasPrefix(pattern, name+"__"):
			return at.faultf("tool %q is named with its server: write %q", shorten(pattern), shorten(pattern[len(name)+2:]))
		case !isPattern(pattern):
			return at.faultf(`tool %q has a * where it means nothing: write "*" alone, or last after one of . _ - / :`, shorten(pattern))
		}
	}
	return nil
}

// isPattern tells whether a tool name has no star, or one that ends it on
// the border of a segment.
func isPattern(s string) bool {
	star := strings.IndexByte(s, '*')
	return star < 0 || s == "*" || star > 1 && star == len(s)-1 && strings.IndexByte("._-/:", s[star-1]) >= 0
}

// transport returns how the server is reached.
func (s *server) transport(name string, at key) (string, error) {
	switch {
	case s.Command == "" && s.URL == "":
		return "", at.faultf("server %s has no command and no url: give it one of them", name)
	case s.Command != "" && s.URL != "":
		return "", at.faultf("server %s has both a command and a url: remove one", name)
	case s.Command != "":
		return s.stdio(name, at)
	}
	for _, k := range []struct {
		key string
		set bool
	}{{"args", s.Args != nil}, {"env", s.Env != nil}, {"dir", s.Dir != ""}} {
		if k.set {
			return "", at.with(k.key).faultf("server %s has a url, and %s goes with a command: remove one", name, k.key)
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", at.with("url").faultf("url %q of server %s is no URL like https://host/path", shorten(s.URL), name)
	}
	switch s.Type {
	case "", "http", "streamable-http", "streamable_http", "streamableHttp":
		return StreamableHTTP, nil
	case "sse":
		return SSE, nil
	}
	return "", at.with("type").faultf(`type %q of server %s does not go with a url: write "http" or "sse"`, shorten(s.Type), name)
}

func (s *server) stdio(name string, at key) (string, error) {
	switch {
	case s.Type != "" && s.Type != "stdio":
		return "", at.with("type").faultf(`type %q of server %s does not go with a command: write "stdio" or remove it`, shorten(s.Type), name)
	case s.Headers != nil:
		return "", at.with("headers").faultf("server %s has a command, and headers go with a url: remove one", name)
	case s.Token != "":
		return "", at.with("bearer_token").faultf("server %s has a command, and bearer_token goes with a url: remove one", name)
	}
	return Stdio, nil
}

func checkEnv(env map[string]string, at key) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00\n/") {
			return at.faultf("%q is no name of a variable", shorten(name))
		}
		if strings.ContainsRune(value, 0) {
			return at.with(name).faultf("variable %s has a NUL in it", shorten(name))
		}
	}
	return nil
}

// isHost tells whether s is an address, a network or a host name.
func isHost(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return true
	}
	s = strings.TrimPrefix(s, "*.")
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.IndexFunc(label, notIn("_-")) >= 0 {
			return false
		}
	}
	return true
}
