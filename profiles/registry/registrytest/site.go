// Package registrytest serves registries of MCP servers to tests, those that lie among
// them.
package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A Site is a registry that speaks the API v0.1: GET /v0.1/servers with cursor,
// limit, search and version.
type Site struct {
	Servers []string     // texts of server.json
	Asked   atomic.Int64 // how many requests came
	Query   atomic.Value // the query of the last of them

	Endless bool                                // the last page's cursor is that of the first
	Answer  func(http.ResponseWriter, int) bool // answers request number n in another way, if it says so
}

// pageMost is how many entries a page has at most.
const pageMost = 100

func (a *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := int(a.Asked.Add(1))
	a.Query.Store(r.URL.RawQuery)
	if a.Answer != nil && a.Answer(w, n) {
		return
	}
	if r.URL.Path != "/v0.1/servers" {
		http.NotFound(w, r)
		return
	}
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	limit = min(max(limit, 1), pageMost)
	at, _ := strconv.Atoi(q.Get("cursor"))
	var page []string
	for ; at < len(a.Servers) && len(page) < limit; at++ {
		if strings.Contains(a.Servers[at], q.Get("search")) {
			page = append(page, `{"server": `+a.Servers[at]+`, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active", "isLatest": true}}}`)
		}
	}
	next := ""
	switch {
	case at < len(a.Servers):
		next = strconv.Itoa(at)
	case a.Endless:
		next = "0"
	}
	metadata, _ := json.Marshal(map[string]any{"count": len(page), "nextCursor": next})
	fmt.Fprintf(w, `{"servers": [%s], "metadata": %s}`, strings.Join(page, ","), metadata)
}

// Serve serves a site on the loopback, without TLS, until the test ends, and
// returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// NPM returns the text of a server.json of an npm package.
func NPM(name string) string {
	return fmt.Sprintf(`{"name": %q, "description": "a server", "version": "1.0.0",
		"packages": [{"registryType": "npm", "identifier": "a-package", "version": "1.2.3", "transport": {"type": "stdio"}}]}`, name)
}

// Variables returns what scripts call $SERVERS: the URL of a registry with two
// pages of servers, one of which has a name that is taken and one of which is broken.
func Variables(t testing.TB) []string {
	site := &Site{Servers: []string{NPM("memory"), `{"name": "io.example/broken", "packages": 7}`}}
	for i := range pageMost {
		site.Servers = append(site.Servers, NPM(fmt.Sprintf("io.example/s%02d", i)))
	}
	site.Servers = append(site.Servers, `{"name": "io.example/forge", "title": "Forge", "description": "Issues and more", "version": "2.1.0",
		"packages": [{"registryType": "pypi", "identifier": "forge-mcp", "version": "2.1.0", "transport": {"type": "stdio"},
			"environmentVariables": [{"name": "FORGE_TOKEN", "isRequired": true, "isSecret": true}]}]}`)
	return []string{"$SERVERS", Serve(t, site)}
}
