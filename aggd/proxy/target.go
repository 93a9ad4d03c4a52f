package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"hutch/aggd/guard"
)

var (
	errNoProxy  = errors.New("this is a proxy: a request must name its server, as GET http://host/path")
	errScheme   = errors.New("only http goes through as it is: for https ask for a tunnel with CONNECT host:443")
	errNoTunnel = errors.New("a tunnel is asked for as CONNECT host:port")
)

// target returns where a request is to go, as the request line says: no other part of
// it has a say.
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
	case u.Scheme != "http":
		return "", 0, errScheme
	default:
		if text = u.Port(); text == "" {
			text = "80"
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%.20q is no port", text)
	}
	host, err = guard.Host(u.Hostname())
	return host, uint16(n), err
}
