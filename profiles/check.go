package profiles

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"hutch/aggd/guard"
	"hutch/aggd/jsonrpc"
	"hutch/fs"
	"hutch/mcpd/policy"
	"hutch/profiles/reference"
)

// checkName refuses what cannot be the name of a file in a folder of names.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > 200:
		return errors.New("is too long")
	case name[0] == '.' || name[0] == '-':
		return errors.New("starts with a dot or a dash")
	case strings.ContainsFunc(name, fs.NotIn("._-")):
		return errors.New("has other characters than letters, digits, dots, dashes and underscores")
	}
	return nil
}

// checkList says what is wrong with the list at.
func (k *Key) checkList(list []string, at key) error {
	for _, v := range list {
		switch k.kind {
		case isTexts:
			if strings.ContainsRune(v, 0) {
				return at.faultf("%s has a NUL in it", at)
			}
		case isPrefixes:
			if v == "" || strings.ContainsRune(v, 0) {
				return at.faultf("%s has %q: an empty one would be of every name", at, v)
			}
		case isHosts:
			if !isHost(v) {
				return at.faultf("%.64q is no host name, address or network such as 10.0.0.0/8", v)
			}
		case isPatterns:
			if _, err := guard.ParsePattern(v); err != nil {
				return at.faultf("%v: write a host as \"pypi.org\", \"*.debian.org\" or \"localhost:8080\"", err)
			}
		case isClients:
			if clients[v] == nil {
				return at.faultf("%.64q is no client: they are %s", v, strings.Join(slices.Sorted(maps.Keys(clients)), " "))
			}
		case isTools:
			if err := checkTool(v, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkTable says what is wrong with the table at.
func (k *Key) checkTable(table map[string]string, at key) error {
	for name, v := range table {
		switch {
		case k.kind == isHeaders && (name == "" || strings.ContainsFunc(name, fs.NotIn("!#$%&'*+-.^_`|~"))):
			return at.faultf("%.64q is no name of a header", name)
		case k.kind == isHeaders && strings.ContainsAny(v, "\x00\r\n"):
			return at.with(name).faultf("the value of header %s has a line end or NUL in it", name)
		case k.kind == isVariables && (name == "" || strings.ContainsAny(name, "=\x00\n/")):
			return at.faultf("%.64q is no name of a variable", name)
		case k.Name == "env" && (strings.HasPrefix(v, "secret:") || strings.HasPrefix(v, "vault:")) && reference.Is(v):
			return at.with(name).faultf("variable %.64s would be the text %.64q: references to secrets work in env, headers and bearer_token of mcpServers.NAME", name, v)
		case k.kind == isVariables && strings.ContainsRune(v, 0):
			return at.with(name).faultf("variable %.64s has a NUL in it", name)
		}
	}
	return nil
}

// checkTool says what is wrong with the name of a tool, or a pattern of such,
// in a list of the server that at begins with.
func checkTool(v string, at key) error {
	server := at[1]
	switch {
	case v == "":
		return at.faultf("server %s has an empty tool name in its lists", server)
	case strings.HasPrefix(v, jsonrpc.Name(server, "")):
		return at.faultf("tool %.64q is named with its server: write %.64q", v, strings.TrimPrefix(v, jsonrpc.Name(server, "")))
	case !policy.IsPattern(v):
		return at.faultf(`tool %.64q has a * where it means nothing: write "*" alone, or last after one of . _ - / :`, v)
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
		if label == "" || len(label) > 63 || label[0] == '-' || strings.ContainsFunc(label, fs.NotIn("_-")) {
			return false
		}
	}
	return true
}
