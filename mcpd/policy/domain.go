package policy

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/guard"
)

// A place is a host with the port that is to be reached there; 0: the usual one.
type place struct {
	host string // as guard.Host has it
	port int
}

// webPorts are the ports of the web's schemes.
var webPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443"}

// isURL tells whether s is a URL from its start to its end, however bad.
func isURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && scheme != "" && !strings.ContainsAny(s, " \t\r\n") && strings.IndexFunc(scheme, notScheme) < 0
}

func notScheme(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("+-.", c))
}

// webSchemes are those behind which a browser reads a host, with slashes or without.
var webSchemes = []string{"http:", "https:", "ws:", "wss:", "ftp:"}

// unread takes out what browsers do not read of a URL.
var unread = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// isWebURL tells whether a program may take a text for a URL that leads to a host: it is
// one, or a browser makes one of it.
func isWebURL(s string) bool {
	s = unread.Replace(strings.TrimFunc(s, func(c rune) bool { return c <= ' ' }))
	rest, slashes := s, "/\\"
	i := slices.IndexFunc(webSchemes, func(scheme string) bool { return len(s) >= len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) })
	if i >= 0 {
		rest = s[len(webSchemes[i]):]
	} else if len(s) < 2 || !strings.ContainsRune(slashes, rune(s[0])) || !strings.ContainsRune(slashes, rune(s[1])) {
		return isURL(s)
	}
	host := strings.TrimLeft(rest, slashes)
	if end := strings.IndexAny(host, `/\?#`); end >= 0 {
		host = host[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	return isURL(s) || host != "" && !strings.ContainsAny(host, " <>^|")
}

// placeOf returns where a host, with a port or without, or a URL leads. What
// programs do not read alike leads nowhere.
func placeOf(n named) (place, *refusal) {
	text, port := n.text, ""
	switch u, err := url.Parse(text); {
	case strings.Contains(text, "/") || strings.Contains(text, "@"):
		if err != nil || u.Scheme == "" || u.Host == "" {
			return place{}, refuse(DomainNotAllowed, "%s is no URL like https://host/path: %.200q", n.where, text)
		}
		if u.User != nil {
			return place{}, refuse(DomainNotAllowed, "%s has a user's name before its host, which others may take for the host: %.200q", n.where, text)
		}
		text, port = u.Hostname(), cmp.Or(u.Port(), webPorts[u.Scheme])
		if strings.Contains(text, ":") {
			text = "[" + text + "]"
		}
	case strings.Count(text, ":") == 1 || strings.Contains(text, "]:"):
		at := strings.LastIndexByte(text, ':')
		text, port = text[:at], text[at+1:]
	}
	host, err := guard.Host(text)
	if err != nil {
		return place{}, refuse(DomainNotAllowed, "%s: %v", n.where, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if port != "" && (err != nil || number == 0) {
		return place{}, refuse(DomainNotAllowed, "%s has no port from 1 to 65535 after its host: %.200q", n.where, n.text)
	}
	return place{host, int(number)}, nil
}

// checkPlace refuses a place that no pattern is about. A pattern without a port
// means those of the web.
func checkPlace(patterns []guard.Pattern, at place, where string) *refusal {
	if slices.ContainsFunc(patterns, func(p guard.Pattern) bool { return p.Match(at.host) && isPort(p, at.port) }) {
		return nil
	}
	host := at.host
	if at.port != 0 {
		host += ":" + strconv.Itoa(at.port)
	}
	return refuse(DomainNotAllowed, "host %.200q of %s is not among %s", host, where, orNothing(texts(patterns)))
}

func isPort(p guard.Pattern, port int) bool {
	if p.Port() == 0 {
		return port == 0 || port == 80 || port == 443
	}
	return int(p.Port()) == port
}

func texts(patterns []guard.Pattern) (list []string) {
	for _, p := range patterns {
		list = append(list, p.String())
	}
	return list
}
