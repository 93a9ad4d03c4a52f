package profiles

import (
	"slices"
	"strings"
	"testing"
)

// TestReferences has references to secrets be told from secrets, be shown, and what
// only begins like one be refused.
func TestReferences(t *testing.T) {
	p, err := Parse("dev", []byte(`
[mcpServers.a]
command = "x"
env = {TOKEN = "secret:gh", PLAIN = "hunter2-hunter2"}
[mcpServers.b]
url = "http://b"
bearer_token = "vault:kv/b/token"
headers = {A = "file:/etc/key", B = "Basic credentials"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Secrets(); !slices.Equal(got, []string{"Basic credentials", "credentials", "hunter2-hunter2"}) {
		t.Errorf("secrets are %q", got)
	}
	refs := p.References()
	slices.Sort(refs)
	if !slices.Equal(refs, []string{"file:/etc/key", "secret:gh", "vault:kv/b/token"}) {
		t.Errorf("references are %q", refs)
	}
	for text, want := range map[string]string{
		`command = "x"` + "\n" + `env.T = "secret:a b"`:      "line 3: T: secret:a b: ",
		`command = "x"` + "\n" + `env.T = "file:token"`:      "line 3: T: file:token: ",
		`url = "http://b"` + "\n" + `bearer_token = "env:"`:  "line 3: bearer_token: env:: ",
		`url = "http://b"` + "\n" + `headers.H = "vault:kv"`: "line 3: H: vault:kv: ",
	} {
		if _, err := Parse("dev", []byte("[mcpServers.a]\n"+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestShownReference shows a reference, which is no secret.
func TestShownReference(t *testing.T) {
	h := newHouse(t)
	lay(t, h.Store, map[string]string{"dev.toml": "[mcpServers.x]\ncommand = \"x\"\nenv = {T = \"secret:gh\", U = \"hunter2-hunter2\"}\n"})
	text, err := h.Show("dev")
	if err != nil || !strings.Contains(text, `mcpServers.x.env.T user dev.toml:3 open "secret:gh"`) || strings.Contains(text, "hunter2") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestDetectedReference leaves out a server of a client's file that refers to a
// secret.
func TestDetectedReference(t *testing.T) {
	h := newHouse(t)
	home(t, h.Store, map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x", "env": {"T": "secret:gh"}}, "b": {"command": "y"}}}`})
	lay(t, h.Store, map[string]string{"dev.toml": "[import]\nfrom = [\"claude\"]\n"})
	p, err := h.Get("dev")
	if err != nil || len(p.Servers) != 1 || p.Servers[0].Name != "b" {
		t.Errorf("servers are %+v, %v", p, err)
	}
	if text := h.Err(); !strings.Contains(text, "secret:gh is a reference to a secret, which only a profile may have") {
		t.Errorf("err has %q", text)
	}
}
