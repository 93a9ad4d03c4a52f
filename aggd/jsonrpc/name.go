package jsonrpc

import (
	"errors"
	"fmt"
	"strings"
)

// A guest knows a tool or a prompt as server__name, and a resource as
// capsem://server/uri. The first Separator ends the server's name.
const (
	Separator = "__"
	Scheme    = "capsem://"
)

// Name returns the guest's name of a server's tool or prompt.
func Name(server, own string) string { return server + Separator + own }

// SplitName takes a guest's name apart; ok is false where it names no server.
func SplitName(name string) (server, own string, ok bool) {
	server, own, ok = strings.Cut(name, Separator)
	if !ok || server == "" {
		return "", name, false
	}
	return server, own, true
}

// URI returns the guest's URI of a server's resource.
func URI(server, own string) string { return Scheme + server + "/" + own }

// SplitURI takes a guest's URI apart; ok is false where it names no server.
func SplitURI(uri string) (server, own string, ok bool) {
	rest, ok := strings.CutPrefix(uri, Scheme)
	if !ok {
		return "", uri, false
	}
	server, own, ok = strings.Cut(rest, "/")
	if !ok || server == "" {
		return "", uri, false
	}
	return server, own, true
}

// CheckServer says why a server may not have a name.
func CheckServer(name string) error {
	switch {
	case name == "":
		return errors.New("a server needs a name")
	case name == "builtin":
		return fmt.Errorf("the server name %q is reserved", name)
	case strings.Contains(name, Separator):
		return fmt.Errorf("the server name %q has %q in it", name, Separator)
	case strings.ContainsAny(name, "/\x00\r\n"):
		return fmt.Errorf("the server name %q has a slash or a control character in it", name)
	}
	return nil
}
