package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestGoneWith tells how a server that is gone can be told something, where that was said.
func TestGoneWith(t *testing.T) {
	for text, more := range map[string]bool{
		"denied a.example:443: echo allow a.example:443 >servers/x/ctl": true,
		"server y does not run: echo start >servers/y/ctl":              false,
		"the server died (exit status 1)":                               false,
	} {
		if got := goneWith("servers/x", errors.New(text)).Error(); strings.Contains(got, "-keep") != more || !strings.HasPrefix(got, text) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestServerName(t *testing.T) {
	for ref, want := range map[string]string{
		"everything": "everything", "io.github.a/forge": "forge", "npx://@scope/server-x": "x", "npx://@scope/server-x@1.2.3": "x",
		"uvx://mcp-server-fetch": "fetch", "npx://server-local": "server-local", "npx://server-": "server", "server-x": "server-x", "https://server-a.example/": "server-a-example",
		"npx://a": "a", "uvx://tool[cli]@1": "tool", "go://github.com/a/b/cmd/c@v1": "c", "ghcr.io/a/b:v1@sha256:00": "b", "localhost:5000/a": "a",
		"https://mcp.example.com:8443/v1/mcp": "mcp-example-com", "https://mcp.example.com/": "mcp-example-com", "npx://a__b": "a_b",
		"npx://builtin": "", "local": "", "npx://": "", "": "", "npx://a_": "a",
	} {
		if got := serverName(ref); got != want {
			t.Errorf("%q: %q, want %q", ref, got, want)
		}
	}
}

// The flags say the config that a server begins with.
func TestServerConfig(t *testing.T) {
	f := serverFlags{
		group: "g", permissions: "network", transport: "sse", port: 80, env: []string{"A=b=c", "E="}, secrets: []string{"s,target=S"},
		mounts: []string{"/a:/b:ro"}, labels: []string{"team=docs"}, tools: []string{"a", "b"}, bearer: "env:T",
		headers: [][2]string{{"X-Team", "docs: a"}, {"X-Key", "secret:k"}}, sizes: map[string]string{"ram": "1GiB"},
	}
	indented, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, indented); err != nil {
		t.Fatal(err)
	}
	want := `{"container_labels":{"team":"docs"},"env_vars":{"A":"b=c","E":""},"group":"g",` +
		`"header_forward":{"add_headers_from_secret":{"X-Key":"secret:k"},"add_plaintext_headers":{"X-Team":"docs: a"}},"hutch":{"ram":"1GiB"},"permission_profile_name_or_path":"network",` +
		`"remote_auth_config":{"bearer_token":"env:T,target=bearer_token"},` +
		`"secrets":["s,target=S"],"target_port":80,"tools_filter":["a","b"],"transport":"sse","volumes":["/a:/b:ro"]}`
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", text.String(), want)
	}
	if text, _ := new(serverFlags).config(); string(text) != "{}\n" {
		t.Errorf("nothing said is %s", text)
	}
}
