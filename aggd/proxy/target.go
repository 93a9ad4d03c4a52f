package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"hutch/aggd/guard"
)

var (
	errNoProxy     = errors.New("this is a proxy: a request must name its server, as GET http://host/path")
	errScheme      = errors.New("only http goes through as it is, and https in a tunnel")
	errUntunnelled = errors.New("the program's HTTP client asks for https without a tunnel, as old versions of axios do: it has to ask the proxy for CONNECT host:443")
	errNoTunnel    = errors.New("a tunnel is asked for as CONNECT host:port")
)

// target returns where a request is to go, as the request line says: no other part of
// it has a say. It is said of one that fails only as it asks for no tunnel, too.
func target(r *http.Request) (host string, port uint16, err error) {
	u, text := r.URL, ""
	switch {
	case r.Method == http.MethodConnect:
		if u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil || u.Port() == "" {
			return "", 0, errNoTunnel
		}
		text = u.Port()
	case u.Host == "" || u.Opaque != "":
		return "", 0, errNoProxy
	case u.Scheme == "https":
		text = cmp.Or(u.Port(), "443")
	case u.Scheme != "http":
		return "", 0, errScheme
	default:
		text = cmp.Or(u.Port(), "80")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%.20q is no port", text)
	}
	if host, err = guard.Host(u.Hostname()); err == nil && u.Scheme == "https" {
		err = errUntunnelled
	}
	return host, uint16(n), err
}
