package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hutch/aggd/guard"
)

var (
	errNoProxy     = errors.New("this is a proxy: a request must name its server, as GET http://host/path, or in its Host header")
	errScheme      = errors.New("only http goes through as it is, and https in a tunnel")
	errUntunnelled = errors.New("the program's HTTP client asks for https without a tunnel, as old versions of axios do: it has to ask the proxy for CONNECT host:443")
	errNoTunnel    = errors.New("a tunnel is asked for as CONNECT host:port")
)

// target returns where a request is to go, as the request line says, else the tunnel that
// it comes in, else its Host header. Beside errUntunnelled it returns that, too.
func target(r *http.Request, in *tunnelled) (host string, port uint16, err error) {
	u, text := r.URL, ""
	if u.Host == "" && u.Scheme == "" && strings.HasPrefix(u.Path, "/") && r.Method != http.MethodConnect {
		if in != nil {
			return in.host, in.port, nil
		}
		u = &url.URL{Scheme: "http", Host: r.Host}
	}
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
	host, err = guard.Host(u.Hostname())
	switch {
	case err != nil:
	case u.Scheme == "https":
		err = errUntunnelled
	case in != nil && (r.Method == http.MethodConnect || *in != tunnelled{host, uint16(n)}):
		err = fmt.Errorf("the tunnel is to %s, and what comes in it goes elsewhere", joinPort(in.host, in.port))
	}
	return host, uint16(n), err
}

// tunnelled is where a tunnel leads that carries plain HTTP, as the agents of Node ask for
// one for http, too.
type tunnelled struct {
	host string
	port uint16
}

// methods are those by which plain HTTP in a tunnel is known.
var methods = []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS "}

// isHTTP reports whether what a tunnel begins with is a request of HTTP.
func isHTTP(begin []byte) bool {
	return slices.ContainsFunc(methods, func(m string) bool {
		n := min(len(m), len(begin))
		return n >= 4 && m[:n] == string(begin[:n])
	})
}
