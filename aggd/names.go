package aggd

import (
	"errors"
	"fmt"
	"strings"

	"hutch/aggd/wire"
)

// separator stands between a server's name and what it names.
const separator = "__"

// scheme starts the URIs that the host sees.
const scheme = "capsem://"

// checkName says why a server may not have a name.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a server needs a name")
	case name == "builtin":
		return fmt.Errorf("the server name %q is reserved", name)
	case strings.Contains(name, separator):
		return fmt.Errorf("the server name %q has %q in it", name, separator)
	case strings.ContainsAny(name, "/\x00\r\n"):
		return fmt.Errorf("the server name %q has a slash or a control character in it", name)
	}
	return nil
}

// splitName splits a name at its first separator.
func splitName(name string) (server, own string, err error) {
	server, own, ok := strings.Cut(name, separator)
	if !ok || server == "" {
		return "", "", fmt.Errorf("name without a server: %s", name)
	}
	return server, own, nil
}

// splitURI splits a URI that the host sees into the server and its own URI.
func splitURI(uri string) (server, own string, err error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if ok {
		server, own, ok = strings.Cut(rest, "/")
	}
	if !ok || server == "" {
		return "", "", fmt.Errorf("uri without a server: %s", uri)
	}
	return server, own, nil
}

// checkDefinition returns the state of a server that is not to be connected,
// and why.
func checkDefinition(d definition) (state string, err error) {
	if err := checkName(d.Name); err != nil {
		return wire.Failed, err
	}
	switch {
	case d.fault != nil:
		return wire.Failed, d.fault
	case !d.Enabled:
		return wire.Disabled, nil
	case d.UnsupportedStdio:
		return wire.Unsupported, errors.New("a stdio server that the host does not start")
	}
	switch d.Type {
	case "", "stdio", "http", "streamable", "streamable-http", "sse":
	default:
		return wire.Unsupported, fmt.Errorf("unknown transport %q", d.Type)
	}
	switch {
	case d.Stdio() && d.Command == "":
		return wire.Failed, errors.New("no command")
	case !d.Stdio() && d.URL == "":
		return wire.Failed, errors.New("neither url nor command")
	case !d.Stdio() && !strings.HasPrefix(d.URL, "http://") && !strings.HasPrefix(d.URL, "https://"):
		return wire.Failed, errors.New("the url is neither http nor https")
	}
	return "", nil
}
