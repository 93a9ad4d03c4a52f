//go:build linux

package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A trader exchanges tokens as RFC 8693 has it, and serves MCP to those who have one of
// its tokens.
type trader struct {
	*httptest.Server
	mcp http.Handler

	mu     sync.Mutex // guards what follows
	answer string     // in the place of a token; "": a token
	status int
	deaf   bool            // no token counts
	life   int             // of tokens, in seconds
	given  int             // tokens
	good   map[string]bool // tokens
	seen   string          // the subject, the client and the audience of the last request
}

func newTrader(t *testing.T) *trader {
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	tr := &trader{mcp: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), life: 3600, good: make(map[string]bool)}
	tr.Server = httptest.NewServer(tr)
	t.Cleanup(tr.Close)
	return tr
}

func (tr *trader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr.mu.Lock()
	good := !tr.deaf && tr.good[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	tr.mu.Unlock()
	switch {
	case r.URL.Path == "/token":
		tr.token(w, r)
	case !good:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		tr.mcp.ServeHTTP(w, r)
	}
}

func (tr *trader) token(w http.ResponseWriter, r *http.Request) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	tr.seen = fmt.Sprint(r.FormValue("subject_token"), " ", id, " ", secret, " ", r.FormValue("audience"))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange":
		w.WriteHeader(http.StatusBadRequest)
	case tr.answer != "":
		w.WriteHeader(tr.status)
		fmt.Fprint(w, tr.answer)
	default:
		tr.given++
		token := fmt.Sprintf("exchanged-token-%d", tr.given)
		tr.good[token] = true
		fmt.Fprintf(w, `{"access_token":%q,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":%d}`, token, tr.life)
	}
}

// does has the tokens that were given count no more, and the next request of one be
// answered; "": by a token.
func (tr *trader) does(status int, answer string, life int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.status, tr.answer, tr.life = status, answer, life
	clear(tr.good)
}

// says has the next request of a token be answered.
func (tr *trader) says(status int, answer string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.status, tr.answer = status, answer
}

func (tr *trader) setDeaf(deaf bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.deaf = deaf
}

// last is what the last request was made with.
func (tr *trader) last() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.seen
}

func (tr *trader) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.given
}

// TestGroupExchange has the token of who runs hutch exchanged for those of two remote
// servers, a member of a group and one that only its config names.
func TestGroupExchange(t *testing.T) {
	t.Parallel()
	tr := newTrader(t)
	s := serve(t, false)
	s.write("secrets/mine", "the-subject-token")
	s.write("secrets/client", "the-client-secret")
	config := func(subject string) string {
		return fmt.Sprintf(`
backends: [{name: far, url: '%[1]s/mcp', transport: streamable-http}]
outgoingAuth:
  default:
    type: token_exchange
    tokenExchange: {tokenUrl: '%[1]s/token', clientId: hutch, clientSecret: 'secret:client', audience: notes%[2]s}
`, tr.URL, subject)
	}
	const subject = ", subjectToken: 'secret:mine'"
	s.mkdir("servers/near")
	s.write("servers/near/config", fmt.Sprintf(`{"remote_url":"%s/mcp","tools_filter":["greet","gone"],"tools_override":{"lost":{"name":"found"}}}`, tr.URL))
	s.groupOf("dev", config(""), "near")
	s.write("groups/dev/ctl", "start\n")
	s.has("groups/dev/status", "\nbackend far failed circuit closed error 'start: token_exchange: who calls brings no token")
	s.has("groups/dev/mcp/servers", "token_exchange: who calls brings no token, and the config of group dev has none: give its tokenExchange a subjectToken")

	s.write("groups/dev/config", config(subject))
	s.write("servers/near/ctl", "start\n")
	greets := func() {
		t.Helper()
		for _, tool := range []string{"near_greet", "far_greet"} {
			var text string
			poll(t, tool, func() bool { return strings.Contains(s.names("groups/dev/tools"), tool) })
			if text = s.use("groups/dev/tools/"+tool, `{"name":"you"}`); !strings.Contains(text, "hello you") {
				t.Errorf("%s: %s", tool, text)
			}
		}
	}
	greets()
	s.has("servers/near/status", "\nnote 'tools_filter.1: near has no tool \"gone\"'\n", "\nnote 'tools_override.lost: near has no such tool'\n")
	if want := "the-subject-token hutch the-client-secret notes"; tr.last() != want || tr.count() != 2 {
		t.Errorf("asked with %q, %d times; want %q, once for each", tr.last(), tr.count(), want)
	}

	tr.does(0, "", 12) // each server refuses what it had, which costs one call nothing
	greets()
	if n := tr.count(); n != 4 {
		t.Errorf("%d tokens after both were refused", n)
	}
	poll(t, "tokens that end to be renewed before", func() bool { return tr.count() >= 6 })
	greets()

	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{400, `{"error":"invalid_grant","error_description":"not this one"}`, "permission denied: invalid_grant, not this one"},
		{500, `oops`, "HTTP 500"},
		{200, `{"access_token":"x","token_type":"mac"}`, `the token is of the type "MAC"`},
	} {
		tr.does(c.status, c.answer, 3600)
		s.write("groups/dev/config", config(subject)) // whoever changes it begins anew
		want := "token exchange at " + strings.TrimPrefix(tr.URL, "http://") + ": "
		for _, name := range []string{"groups/dev/mcp/servers", "groups/dev/status", "servers/near/mcp/servers", "servers/near/status"} {
			poll(t, name+" to say "+c.want, func() bool {
				text := s.read(name)
				return strings.Contains(text, want) && strings.Contains(text, c.want)
			})
		}
	}
	s.has("servers/near/log/server", "token exchange at ")
	poll(t, "the group to say what its member lacks", func() bool {
		return strings.Contains(s.read("groups/dev/mcp/servers"), "server near is unhealthy: ")
	})
	tr.does(0, "", 3600)
	greets() // by itself

	tr.setDeaf(true)
	for _, tool := range []string{"near_greet", "far_greet"} {
		for range 3 {
			began := time.Now()
			text := s.cannotUse("groups/dev/tools/"+tool, `{"name":"you"}`)
			if took := time.Since(began); took > 8*time.Second || !strings.Contains(text, "HTTP 401 Unauthorized (the server refuses its token, and another is asked for in") {
				t.Errorf("%s, which takes no token, after %v: %s", tool, took, text)
			}
		}
	}
	s.has("groups/dev/mcp/servers", "the server refuses its token")
	s.has("groups/dev/status", "\nbackend far connected circuit closed error 'the server refuses its token'\n")
	tr.setDeaf(false)
	greets()
	s.has("groups/dev/status", "\nbackend far connected circuit closed\n")

	s.write("servers/near/ctl", "stop\n")
	tr.does(400, `{"error":"invalid_grant"}`, 3600)
	s.write("groups/dev/config", config(subject))
	if err := s.tryWrite("servers/near/ctl", "start\n"); err == nil || !strings.Contains(s.why(), "invalid_grant") {
		t.Errorf("a start without a token: %v, %s", err, s.why())
	}
	tr.does(0, "", 3600)
	s.write("secrets/mine", "another-subject")
	s.write("servers/near/ctl", "start\n")
	greets()
	if !strings.HasPrefix(tr.last(), "another-subject ") {
		t.Errorf("asked with %q", tr.last())
	}
	tr.says(400, `{"error":"invalid_grant"}`) // and the tokens that were given count on
	s.write("secrets/mine", "a-third-subject")
	if err := s.tryWrite("servers/near/ctl", "restart\n"); err == nil || !strings.Contains(s.why(), "invalid_grant") {
		t.Errorf("a start with a subject that is refused, when another was not: %v, %s", err, s.why())
	}
	tr.Listener.Close()
	s.write("groups/dev/config", config(subject))
	poll(t, "what cannot be reached to be said", func() bool { return strings.Contains(s.read("groups/dev/mcp/servers"), "connection refused") })
	s.write("groups/dev/config", config(", subjectToken: 'secret:none'"))
	poll(t, "a secret that is not there to be said", func() bool { return strings.Contains(s.read("groups/dev/mcp/servers"), "secret:none") })

	filepath.WalkDir(s.state(), func(path string, d os.DirEntry, _ error) error {
		if d == nil || d.IsDir() {
			return nil
		}
		text, _ := os.ReadFile(path)
		for _, secret := range []string{"exchanged-token-", "the-subject-token", "another-subject", "a-third-subject", "the-client-secret"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s has %s", path, secret)
			}
		}
		return nil
	})
}

// TestExchangeRevoked starts a server again whose token counts no more: it is shown
// another.
func TestExchangeRevoked(t *testing.T) {
	tr := newTrader(t)
	s := serve(t, false)
	s.write("secrets/mine", "the-subject-token")
	s.mkdir("servers/near")
	s.write("servers/near/config", fmt.Sprintf(`{"remote_url":"%s/mcp"}`, tr.URL))
	s.groupOf("dev", fmt.Sprintf(`
outgoingAuth:
  default:
    type: token_exchange
    tokenExchange: {tokenUrl: '%[1]s/token', clientId: hutch, subjectToken: 'secret:mine'}
`, tr.URL), "near")
	s.write("servers/near/ctl", "start\n")
	s.write("servers/near/ctl", "stop\n")
	tr.does(0, "", 3600) // what it was given counts no more
	if err := s.tryWrite("servers/near/ctl", "start\n"); err != nil {
		t.Errorf("start: %v, %s", err, s.why())
	}
	if n := tr.count(); n != 2 {
		t.Errorf("%d tokens were given, want 2", n)
	}
	s.write("servers/near/ctl", "stop\n")
	tr.setDeaf(true)
	if err := s.tryWrite("servers/near/ctl", "start\n"); err == nil {
		t.Error("a server is started that takes no token")
	}
}
