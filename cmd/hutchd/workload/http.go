package workload

import (
	"cmp"
	"fmt"
	"maps"

	"hutch/aggd/wire"
	"hutch/profiles/runconfig"
)

// endpoints are the paths at which servers of a transport are asked, as ToolHive has
// them.
var endpoints = map[string]string{runconfig.Streamable: "/mcp", runconfig.SSE: "/sse"}

// listening adds where in its sandbox a server is asked that speaks HTTP. The host in
// its URL is the one that servers know as their own; aggd is handed the connections.
func listening(d wire.Server, s *runconfig.Server) wire.Server {
	if s.Transport == runconfig.Stdio {
		return d
	}
	d.Port = cmp.Or(s.Port, runconfig.DefaultPort)
	d.Type, d.URL = s.Transport, fmt.Sprintf("http://127.0.0.1:%d%s", d.Port, endpoints[s.Transport])
	return withHeaders(d, s)
}

// withHeaders adds the headers that a server is sent.
func withHeaders(d wire.Server, s *runconfig.Server) wire.Server {
	d.Headers = maps.Clone(s.Headers)
	for name, ref := range s.SecretHeaders {
		if d.Headers == nil {
			d.Headers = make(map[string]string)
		}
		d.Headers[name] = ref.String()
	}
	return d
}
