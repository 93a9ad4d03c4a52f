//go:build linux

package main_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/profiles/vault/vaulttest"
)

// teller is an MCP server for a shell, whose tool tells its token, as it does on its
// standard error and in the description of another tool.
const teller = `while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
	case $line in
	*'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id";;
	*'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"tell","inputSchema":{"type":"object"}},{"name":"hint","description":"by %s","inputSchema":{"type":"object","title":"%s"}},{"name":"x_%s","inputSchema":{"type":"object"}}]}}\n' "$id" "$TOKEN" "$TOKEN" "$TOKEN";;
	*'"tools/call"'*) echo "it says $TOKEN" >&2; printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"it is %s."}]}}\n' "$id" "$TOKEN";;
	*'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}\n' "$id";;
	esac
done`

// secretService runs a VM whose servers have a secret each: teller, and one that is
// asked over HTTP, whose headers come by the channel.
func secretService(t *testing.T, ref string) (*service, <-chan string) {
	t.Helper()
	headers := make(chan string, 1000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case headers <- r.Header.Get("Authorization"):
		default: // nobody waits for so many
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(web.Close)
	s := serve(t, false)
	s.write("profiles/default.toml", fmt.Sprintf("[security]\nhide = \"nothing\"\n[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\nenv.TOKEN = %q\n[mcpServers.web]\nurl = %q\nbearer_token = %q\n", teller, ref, web.URL, ref))
	return s, headers
}

// secret runs hutch secret, and returns what it printed.
func (s *service) secret(input string, args ...string) (string, error) {
	cmd := s.command("hutch", append([]string{"secret"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tellsToken returns what the tool of teller answers.
func (s *service) tellsToken() string {
	cmd := s.command("hutch", "9p", "rdwr", "vm/dev/mcp/tools/s__tell/call")
	cmd.Stdin = strings.NewReader("{}\n")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func awaitHeader(t *testing.T, headers <-chan string, want string) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case got := <-headers:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("the server is not asked with %s", want)
		}
	}
}

// TestSecret sets a secret, has two servers get it, changes and forgets it, and looks
// for it wherever it must not be.
func TestSecret(t *testing.T) {
	t.Parallel()
	const one, two = "first-token-4711", "second-token-0815"
	s, headers := secretService(t, "secret:gh")
	if out, err := s.secret(one+"\n", "set", "gh"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := s.secret("12345\n", "set", "pin"); err != nil || !strings.Contains(out, "has fewer than 6 characters") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.secret("", "rm", "pin"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := s.secret("", "ls"); out != "gh\n" || err != nil {
		t.Errorf("secret ls: %v: %s", err, out)
	}
	s.vm("dev")
	awaitHeader(t, headers, "Bearer "+one)
	if got := s.tellsToken(); !strings.Contains(got, "it is "+one+".") {
		t.Fatalf("the server has %s", got)
	}
	if out, err := s.secret(two, "set", "gh"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.write("vm/dev/mcp/ctl", "reload\n")
	awaitHeader(t, headers, "Bearer "+two)
	if got := s.tellsToken(); !strings.Contains(got, "it is "+two+".") {
		t.Errorf("after the reload the server has %s", got)
	}
	for _, name := range []string{"schema", "description", "approved", "offered"} {
		text := s.read("vm/dev/mcp/tools/s__hint/" + name)
		if !strings.Contains(text, "[redacted]") || strings.Contains(text, one) || strings.Contains(text, two) {
			t.Errorf("%s is %s", name, text)
		}
	}
	s.nowhere(t, one, two)
	shown := "vm/dev/mcp/tools/s__x_%5Bredacted%5D/schema"
	if got := s.read(shown); !strings.Contains(got, `"object"`) {
		t.Errorf("%s is %s", shown, got)
	}
	profile := s.read("profiles/default.toml")
	s.write("profiles/default.toml", strings.Replace(profile, `hide = "nothing"`, "", 1))
	s.write("vm/dev/mcp/ctl", "reload\n")
	if got := s.tellsToken(); !strings.Contains(got, "it is [redacted].") {
		t.Errorf("the server tells the guest its own secret: %s", got)
	}
	s.write("profiles/default.toml", profile)
	if out, err := s.secret("", "rm", "gh"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := s.tryWrite("vm/dev/mcp/ctl", "reload\n"); err == nil {
		t.Error("a reload says nothing of a secret that is gone")
	}
	if got := s.tellsToken(); !strings.Contains(got, "secret:gh") || strings.Contains(got, two) {
		t.Errorf("without its secret the server says %s", got)
	}
	if got := s.read("vm/dev/mcp/servers"); strings.Count(got, "secret:gh") != 2 {
		t.Errorf("mcp/servers does not name the reference:\n%s", got)
	}
	s.nowhere(t, one, two)
}

// nowhere looks for values in the state folder, the log, what the tree shows, and how
// processes were started.
func (s *service) nowhere(t *testing.T, values ...string) {
	t.Helper()
	show, err := s.command("hutch", "profile", "show", "default").CombinedOutput()
	if err != nil || !bytes.Contains(show, []byte("secret:gh")) {
		t.Errorf("profiles/show: %v: %s", err, show)
	}
	tools, _ := s.command("hutch", "9p", "ls", "vm/dev/mcp/tools").CombinedOutput()
	places := map[string][]byte{"profiles/show": show, "mcp/tools": tools}
	for _, name := range []string{"vm/dev/mcp/servers", "vm/dev/log/agg", "vm/dev/log/mcp", "log/service", "vm/dev/status", "err", "vm/dev/err"} {
		places[name] = []byte(s.read(name))
	}
	if !bytes.Contains(places["vm/dev/log/mcp"], []byte("it is ")) || !bytes.Contains(places["vm/dev/log/agg"], []byte("it says ")) {
		t.Errorf("the call is not recorded, and so proves nothing: %s, %s", places["vm/dev/log/mcp"], places["vm/dev/log/agg"])
	}
	filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			places[path], _ = os.ReadFile(path)
		}
		return nil
	})
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		places[path], _ = os.ReadFile(path)
	}
	for place, text := range places {
		for _, value := range values {
			if bytes.Contains(text, []byte(value)) {
				t.Errorf("%s is in %s", value, place)
			}
		}
	}
}

// TestVaultSecret has a server get its secret from a vault that is sealed at first.
func TestVaultSecret(t *testing.T) {
	v := vaulttest.New(t)
	v.Put("gh", map[string]any{"token": "vault-token-1234"})
	v.Seal(true)
	t.Setenv("VAULT_ADDR", v.URL)
	t.Setenv("VAULT_TOKEN", "root")
	s, headers := secretService(t, "vault:team/kv/gh/token")
	s.vm("dev")
	if got := s.tellsToken(); !strings.Contains(got, "vault:team/kv/gh/token") || !strings.Contains(got, "sealed") {
		t.Errorf("while the vault is sealed the server says %s", got)
	}
	v.Seal(false)
	awaitHeader(t, headers, "Bearer vault-token-1234") // they are tried again by themselves
	poll(t, "the server to have the token", func() bool { return strings.Contains(s.tellsToken(), "it is vault-token-1234.") })
}
