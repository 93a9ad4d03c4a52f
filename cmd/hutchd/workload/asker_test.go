package workload

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"hutch/aggd/guard"
	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/profiles"
	"hutch/profiles/permission"
	"hutch/profiles/runconfig"
)

// TestAllow adds hosts to what configs allow, one after the other, as what a server's
// log says has ctl do.
func TestAllow(t *testing.T) {
	for _, config := range []string{
		`{"image":"npx://x"}`,
		`{"image":"npx://x","permission_profile_name_or_path":"none"}`,
		`{"image":"npx://x","permission_profile":{"read":["/it's here:/a b"],"network":{"outbound":{"allow_host":["other.example"],"allow_port":[443]}}}}`,
		`{"image":"npx://x","permission_profile":{"network":{"mode":"none","outbound":{"allow_host":["other.example"]}}}}`,
		`{"image":"npx://x","permission_profile":{"network":{"mode":"none","outbound":{"allow_port":[443]}}}}`,
	} {
		c, err := runconfig.Decode([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		line := asker{server: "x", own: c.Server()}.why("api.example.com:8443", wire.NetEvent{Rule: guard.RuleDefault})
		if line != "denied api.example.com:8443: echo allow api.example.com:8443 >servers/x/ctl" {
			t.Errorf("the line is %s", line)
		}
		for _, host := range []string{"[fd00::1]:80", "api.example.com:8443", "api.example.com:8443"} {
			if c, err = allow(c, []string{host}); err != nil {
				t.Fatalf("%s: allow %s: %v", config, host, err)
			}
		}
		p, err := c.Server().Permissions()
		if err != nil {
			t.Fatal(err)
		}
		g, err := p.Grant(permission.Terms{})
		if err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		hosts, err := guard.ParseHosts(g.Network.Allow, nil)
		if _, _, ok := hosts.Decide("api.example.com", 8443); !ok || err != nil {
			t.Errorf("%s: %q, %v", config, g.Network.Allow, err)
		}
		if _, _, ok := hosts.Decide("fd00::1", 80); !ok {
			t.Errorf("%s: what was allowed before is not: %q", config, g.Network.Allow)
		}
		_, _, before := hosts.Decide("other.example", 443)
		if was := strings.Contains(config, "it's here"); before != was || len(g.Mounts) > 0 != was {
			t.Errorf("%s: more was changed: %s", config, c.Text())
		}
	}
}

// TestAllowRefused has no config allow what is no host, or what runs elsewhere any, or
// less than before.
func TestAllowRefused(t *testing.T) {
	for config, host := range map[string]string{
		`{"image":"npx://x"}`:                    "https://a.example/",
		`{"image":"npx://y"}`:                    "*",
		`{"remote_url":"https://b.example/mcp"}`: "a.example",
		`{"image":"npx://z","permission_profile":{"network":{"outbound":{"allow_port":[443]}}}}`: "a.example:8443",
	} {
		c, err := runconfig.Decode([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := allow(c, []string{host}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: allow %s: %v", config, host, err)
		}
	}
}

// TestRead runs what a server's log says in a shell, with a file in the place of ctl,
// and has the config that its messages make show the folder.
func TestRead(t *testing.T) {
	c, err := runconfig.Decode([]byte(`{"image":"npx://x","volumes":["/srv/a:/a","/srv/b:/b:ro"]}`))
	if err != nil {
		t.Fatal(err)
	}
	a := asker{server: "x", own: c.Server()}
	got := apply(t, c, a.read([]string{"/opt/it's here"})).Server().Mounts
	want := append(c.Server().Mounts, permission.Mount{Host: "/opt/it's here", Guest: "/opt/it's here", ReadOnly: true})
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("the volumes are %+v", got)
	}
	if text := a.read([]string{"/home/me"}); !strings.Contains(text, "a folder of its own") {
		t.Errorf("of a home it says %s", text)
	}
}

// apply runs a command in a shell and does the set that it writes to ctl.
func apply(t *testing.T, c *runconfig.Config, command string) *runconfig.Config {
	t.Helper()
	command, ok := strings.CutSuffix(command, " >servers/x/ctl")
	out, err := exec.Command("sh", "-c", command).Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || !ok || len(lines) != 4 || lines[0] != "stop" || lines[2] != "start" {
		t.Fatalf("%s: %v, %q", command, err, lines)
	}
	words, err := fs.Words(lines[1])
	if err != nil || len(words) != 3 || words[0] != "set" {
		t.Fatalf("%s: %v", lines[1], err)
	}
	next, err := c.Set(words[1], words[2])
	if err != nil {
		t.Fatalf("%s: %v", lines[1], err)
	}
	return next
}

// TestWhy tells of hosts that no line can allow, and of a server whose client has it.
func TestWhy(t *testing.T) {
	found := asker{server: "x", says: profiles.Says{Layer: "detected", Source: "~/.claude.json"}}
	for _, tt := range []struct {
		asker
		host string
		e    wire.NetEvent
		want string
	}{
		{found, "a.example:443", wire.NetEvent{Rule: guard.RulePort}, `denied a.example:443: add "hutch": {"allow": ["a.example:443"]} to x in ~/.claude.json`},
		{asker{server: "x", profile: "default", own: new(runconfig.Server)}, "10.0.0.1:80", wire.NetEvent{Host: "10.0.0.1", Rule: guard.RulePrivate}, `denied 10.0.0.1:80, whose address is not public: add private = ["10.0.0.1"] to [network] of profile default, and write reload to hutch's ctl`},
		{asker{server: "x", profile: "default", private: []string{"10.1.0.0/16"}}, "a.example:80", wire.NetEvent{Host: "a.example", Rule: guard.RulePrivate}, `denied a.example:80, whose address is not public: have private = ["10.1.0.0/16", "a.example"] in [network] of profile default, and write reload to hutch's ctl`},
		{found, "*:443", wire.NetEvent{Rule: guard.RuleDefault, Reason: "no"}, `denied *:443: no`},
		{found, "a\x1b[2J:443", wire.NetEvent{Rule: guard.RuleDefault, Reason: "no"}, `denied "a\x1b[2J:443": no`},
		{asker{server: "x", installs: true}, "a.example:443", wire.NetEvent{Rule: guard.RuleDefault}, `denied a.example:443 while the package was installed, when there are only its registry's hosts`},
	} {
		if got := tt.why(tt.host, tt.e); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.host, got, tt.want)
		}
	}
}
