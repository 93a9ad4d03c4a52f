package aggd

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hutch/aggd/wire"
)

func TestLocal(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<p>hi</p>") }))
	t.Cleanup(s.Close)
	def := stdioServer(t, "local", "locald")
	def.Shared = true
	h := start(t, Config{}, def)
	if names := h.tools(); !slices.Equal(names, []string{"local__echo", "local__fetch_http", "local__grep_http", "local__http_headers"}) {
		t.Errorf("tools %v", names)
	}
	fetch := fmt.Sprintf(`{"name":"local__fetch_http","arguments":{"url":%q}}`, s.URL)
	wants(t, h.ask("call_tool", fetch), "127.0.0.1 is not a public address", `"isError":true`)
	def.Env = map[string]string{"AGGD_TEST_SERVER": "locald", "LOCALD_ALLOW_PRIVATE": "127.0.0.1"}
	h.refresh(def)
	wants(t, h.ask("call_tool", fetch), `\n\nhi"`)

	// all clients share one
	client := h.client(`{"sampling":{}}`)
	for range 3 {
		wants(t, h.rpc(client, "local", "tools/call", `{"name":"echo","arguments":{"text":"a"}}`), `"text":"a"`)
	}
	if n := strings.Count(h.log.String(), "connection lost"); n != 0 {
		t.Errorf("%d connections lost", n)
	}
}

func TestLocalMissing(t *testing.T) {
	local := wire.Server{Name: "local", Source: "builtin", Program: wire.Program{Command: t.TempDir() + "/locald", Confined: true}}
	h := start(t, Config{}, local, stdioServer(t, "s", "plain"))
	wants(t, h.ask("call_tool", `{"name":"local__echo","arguments":{"text":"a"}}`), `"error":"server local is not connected: start: there is no program`)
	if st := h.status("local"); st.State != wire.Failed || st.Source != "builtin" {
		t.Errorf("%+v", st)
	}
	if n := len(h.tools()); n != 3 {
		t.Errorf("%d tools", n)
	}
}
