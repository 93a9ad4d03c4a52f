package jsonrpc

import (
	"crypto/sha256"
	"encoding/hex"
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

// MaxClientName is how long a name may be that every client takes.
const MaxClientName = 64

// SafeName returns a name as every client takes it: characters other than letters, digits,
// _ and -, and dots unless they may stay, become _. A name that is changed so ends in a sum
// of the server and of what that calls the item, so that no two become one.
func SafeName(name, server, own string, dots bool) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' && dots {
			return r
		}
		return '_'
	}, name)
	if clean == name && name != "" && len(name) <= MaxClientName {
		return name
	}
	return SummedName(clean, server, own, ShortSum)
}

// ShortSum is how many digits of its sum a name has, unless two are the same with them.
const ShortSum = 8

// SummedName returns a name with so many digits of the sum behind it, cut to the length
// that clients take.
func SummedName(name, server, own string, digits int) string {
	sum := sha256.Sum256([]byte(server + "\x00" + own))
	tail := "_" + hex.EncodeToString(sum[:])[:digits]
	return name[:min(len(name), MaxClientName-len(tail))] + tail
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
