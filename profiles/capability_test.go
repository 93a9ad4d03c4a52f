package profiles

import (
	"strings"
	"testing"
)

// A value is the text that it is: nothing in it is a reference to a variable or
// to a secret elsewhere, which might not be there.
func TestValuesAreTexts(t *testing.T) {
	p, err := Parse("p", []byte("[mcpServers.a]\ncommand = \"a\"\nenv = { KEY = \"vault:system/tools/key\", OTHER = \"$HOME\" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	if env := p.Servers[0].Env; env["KEY"] != "vault:system/tools/key" || env["OTHER"] != "$HOME" {
		t.Errorf("%q", env)
	}
}

func TestCapabilityFaults(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[security]\ndeny = [\"f*\"]", `line 2: security.deny has tool "f*"`},
		{"[security.capabilities]\na = 1", "line 2: security.capabilities.a: write a table"},
		{"[security.capabilities.a]\npaths = [\"/\"]", "line 1: security.capabilities.a.tools is missing"},
		{"[security.capabilities.a]\ntools = [\"x\"]\npaths = [\"/a/../b\"]", "line 3: security.capabilities.a.paths has path"},
		{"[security.capabilities.a]\ntools = [\"x\"]\npath = [\"/a\"]", "line 3: unknown key"},
		{"[security.capabilities.\"a b\"]\ntools = [\"x\"]\nrate = \"9\"", `line 3: security.capabilities."a b".rate "9" is no rate`},
		{"[security.capabilities.a]\ntools = [\"x\"]\nmax_response = \"0\"", "line 3: security.capabilities.a.max_response is too small"},
		{"[security.capabilities.a]\ntools = [\"x\"]\nmax_concurrent = 0", "line 3: security.capabilities.a.max_concurrent"},
		{"[security.capabilities.a]\ntools = [\"x\"]\nsubcommands = 1", "line 3: security.capabilities.a.subcommands: write a table"},
		{"[security.capabilities.a]\ntools = [\"x\"]\n[security.capabilities.a.subcommands]\ngit = \"log\"", "line 4: security.capabilities.a.subcommands.git: write a list"},
		{"[security.capabilities.a]\ntools = [\"x\"]\ndomains = [\"http://x\"]", "line 3: security.capabilities.a.domains has"},
		{"[security.cedar.policies]\nx = \"permit\"", "line 2: security.cedar.policies.x does not parse"},
		{"[security.cedar.policies]\nx = 1", "line 2: security.cedar.policies.x: write a text"},
		{"[security.cedar]\nentities = \"x\"", "line 2: security.cedar.entities cannot be read"},
	} {
		_, err := Parse("p", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q\n got %v\nwant %s", tt.text, err, tt.want)
		}
	}
}
