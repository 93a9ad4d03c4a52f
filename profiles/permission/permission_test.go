package permission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hutch/aggd/guard"
	"hutch/fs"
	"hutch/profiles"
)

// TestWhole parses a profile with all there is, and gives it to a VM.
func TestWhole(t *testing.T) {
	p, err := Parse([]byte(`{"name": "fetch", "read": ["/srv/data", "/srv/in/:/in"], "write": ["/srv/cache:/cache", "/srv/data"],
		"network": {"mode": "bridge", "outbound": {"insecure_allow_all": false, "allow_host": ["api.github.com", ".example.com", "::1"], "allow_port": [443, 8443]},
			"inbound": {"allow_host": []}}, "privileged": false}`))
	if err != nil {
		t.Fatal(err)
	}
	g, err := p.Grant(Terms{})
	if err != nil {
		t.Fatal(err)
	}
	want := []profiles.Mount{{Host: "/srv/cache", Guest: "/cache"}, {Host: "/srv/data", Guest: "/srv/data"}, {Host: "/srv/in", Guest: "/in", ReadOnly: true}}
	if !slices.Equal(g.Mounts, want) {
		t.Errorf("mounts %v, want %v", g.Mounts, want)
	}
	allow := []string{"api.github.com:443", "api.github.com:8443", "example.com:443", "example.com:8443", "*.example.com:443", "*.example.com:8443", "[::1]:443", "[::1]:8443"}
	if !slices.Equal(g.Network.Allow, allow) || g.Net != profiles.NetProxy || g.Network.Profile != "fetch" {
		t.Errorf("%s of %s: %v", g.Net, g.Network.Profile, g.Network.Allow)
	}
}

// TestReach asks guard what it makes of the patterns of a profile.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		network      string
		yes, no      string // HOST:PORT …
		net, comment string
	}{
		{`null`, "", "example.com:443", profiles.NetNone, ""},
		{`{}`, "", "example.com:443", profiles.NetNone, ""},
		{`{"outbound": null}`, "", "example.com:443", profiles.NetNone, ""},
		{`{"outbound": {"allow_host": [], "allow_port": []}}`, "", "example.com:443", profiles.NetNone, ""},
		{`{"mode": "none", "outbound": {"insecure_allow_all": true}}`, "", "example.com:443", profiles.NetNone, ""},
		{`{"outbound": {"insecure_allow_all": true}}`, "example.com:443 example.com:80", "example.com:22", profiles.NetProxy, "insecure_allow_all reaches"},
		{`{"outbound": {"insecure_allow_all": true, "allow_port": [22]}}`, "example.com:443 example.com:22", "example.com:23", profiles.NetProxy, "insecure_allow_all reaches"},
		{`{"outbound": {"allow_port": [443]}}`, "example.com:443", "example.com:80", profiles.NetProxy, "allow_port is of every public host"},
		{`{"mode": "default", "outbound": {"allow_host": ["example.com"]}}`, "example.com:443 example.com:80", "example.com:8080 www.example.com:443 example.com.evil.example:443", profiles.NetProxy, ""},
		{`{"outbound": {"allow_host": [".example.com"]}}`, "example.com:443 www.example.com:443 a.b.example.com:80", "badexample.com:443 com:443", profiles.NetProxy, ""},
		{`{"outbound": {"allow_host": ["*.example.com"]}}`, "www.example.com:443", "example.com:443", profiles.NetProxy, ""},
		{`{"outbound": {"allow_host": ["example.com"], "allow_transport": ["tcp"]}}`, "example.com:443", "a.example:443", profiles.NetProxy, ""},
		{`{"outbound": {"allow_host": ["example.com"], "allow_transport": ["tcp", "udp"]}}`, "example.com:443", "a.example:443", profiles.NetProxy, "allow_transport has udp"},
		{`{"outbound": {"insecure_allow_all": true, "allow_transport": ["udp"]}}`, "", "example.com:443", profiles.NetNone, "over which no server reaches anything false]"},
		{`{"outbound": {"allow_host": [".example.com:8443"], "allow_port": [443]}}`, "example.com:8443 www.example.com:8443", "example.com:443", profiles.NetProxy, ""},
	} {
		p, err := Parse([]byte(`{"network": ` + c.network + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.network, err)
			continue
		}
		g, err := p.Grant(Terms{})
		if err != nil || g.Net != c.net || len(g.Network.Private) > 0 {
			t.Errorf("%s: net %s, private %v, %v; want net %s", c.network, g.Net, g.Network.Private, err, c.net)
		}
		hosts, err := guard.ParseHosts(g.Network.Allow, nil)
		if err != nil {
			t.Errorf("%s: %v", c.network, err)
		}
		for want, list := range map[bool]string{true: c.yes, false: c.no} {
			for _, at := range strings.Fields(list) {
				host, _, _ := strings.Cut(at, ":")
				var port uint16
				fmt.Sscan(at[len(host)+1:], &port)
				if _, _, ok := hosts.Decide(host, port); ok != want {
					t.Errorf("%s reaches %s: %t", c.network, at, ok)
				}
			}
		}
		if notes := fmt.Sprint(p.Notes()); c.comment == "" && notes != "[]" || !strings.Contains(strings.ReplaceAll(notes, "}", ""), c.comment) {
			t.Errorf("%s: notes %s", c.network, notes)
		}
	}
}

func TestRefused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"a.example",`, 257), ",")
	for text, want := range map[string]string{
		``:                                   "ends too early",
		`[]`:                                 "cannot be read",
		`null x`:                             "cannot be read",
		`{"read": "/a"}`:                     `"read" takes no string`,
		`{"privileged": "no"}`:               `"privileged" takes no string`,
		`{"Privileged": true}`:               `"Privileged" is not known`,
		`{"deny": ["/a"]}`:                   `"deny" is not known`,
		`{"network": {"Outbound": {}}}`:      `network cannot be read: "Outbound" is not known`,
		`{"read": [], "read": ["/"]}`:        `ambiguous`,
		`{"network": {"mode":"","mode":""}}`: `ambiguous`,
		"{\"name\": \"\xff\"}":               "is not UTF-8",
		`{"name": "a b"}`:                    "name",
		`{"read": [""]}`:                     `read[0] "" is empty`,
		`{"read": ["/ok", "data"]}`:          `read[1] "data" has the path "data", which is not absolute`,
		`{"read": ["~/x"]}`:                  "not absolute",
		`{"read": ["C:\\x:/x"]}`:             "more colons",
		`{"read": ["/a:C:\\x"]}`:             "more colons",
		`{"read": ["/a:\\x"]}`:               "not absolute",
		`{"read": ["/a:b"]}`:                 `has the path "b" for the server`,
		`{"read": ["/a:/b:ro"]}`:             "more colons",
		`{"write": ["/a/../b"]}`:             "has .. in it",
		`{"write": ["/a:/.."]}`:              "has .. in it",
		`{"write": ["/a/$(id)"]}`:            "has one of $ & ; | `",
		`{"write": ["/a;b"]}`:                "has one of",
		`{"write": ["/a|b"]}`:                "has one of",
		`{"write": ["/a&b"]}`:                "has one of",
		"{\"write\": [\"/a`b\"]}":            "has one of",
		`{"write": ["/a\u0000b"]}`:           "not shown",
		`{"write": ["/a\nb"]}`:               "not shown",
		`{"write": ["/a\u202eb"]}`:           "not shown",
		`{"write": ["/a\u007f"]}`:            "not shown",
		`{"write": ["/` + strings.Repeat("a", 1024) + `"]}`:              "1025 bytes",
		`{"read": ["volume://a:/x"]}`:                                    "which there is not here",
		`{"read": ["secret://a:/x"]}`:                                    `kind "secret"`,
		`{"read": ["file:///etc:/x"]}`:                                   `kind "file"`,
		`{"read": ["/"]}`:                                                "has /, which no server sees",
		`{"read": ["/proc/1:/x"]}`:                                       "no server sees",
		`{"read": ["/run:/x"]}`:                                          "no server sees",
		`{"read": ["/run/podman:/x"]}`:                                   "no server sees",
		`{"read": ["/var/run/dbus:/x"]}`:                                 "no server sees",
		`{"read": ["/var/run/docker.sock"]}`:                             "is root of the host",
		`{"read": ["/srv:/workspace/x"]}`:                                "the guest's own",
		`{"read": ["/srv:/"]}`:                                           "the guest's own",
		`{"read": ["/a:/x"], "write": ["/b:/x/"]}`:                       "read[0] \"/a:/x\" is at /x, where another is",
		`{"network": {"mode": "host"}}`:                                  "network.mode is host",
		`{"network": {"mode": "mynet"}}`:                                 "network.mode is \"mynet\"",
		`{"network": {"outbound": {"allow_host": ["*"]}}}`:               "insecure_allow_all says that",
		`{"network": {"outbound": {"allow_host": ["*:80"]}}}`:            "insecure_allow_all says that",
		`{"network": {"outbound": {"allow_host": ["a", "https://a/"]}}}`: "network.outbound.allow_host[1]",
		`{"network": {"outbound": {"allow_host": ["."]}}}`:               "is no name of a host",
		`{"network": {"outbound": {"allow_host": [".10.0.0.1"]}}}`:       "is no name of a host",
		`{"network": {"outbound": {"allow_host": [` + many + `]}}}`:      "257 hosts",
		`{"network": {"outbound": {"allow_port": [0]}}}`:                 "allow_port[0] is 0",
		`{"network": {"outbound": {"allow_port": [65536]}}}`:             "is 65536",
		`{"network": {"outbound": {"allow_port": [1.5]}}}`:               "takes no number",
		`{"network": {"inbound": {"allow_host": ["a b"]}}}`:              "network.inbound.allow_host would say",
		`{"network": {"outbound": {"allow_transport": ["icmp"]}}}`:       `allow_transport[0] "icmp" is neither tcp nor udp`,
		strings.Repeat(" ", MaxText) + `{}`:                              "at most 65536",
		strings.Repeat(`{"network":`, 600):                               "nested deeper",
	} {
		p, err := Parse([]byte(text))
		var fault *Fault
		switch {
		case err == nil:
			t.Errorf("%.80q is %+v", text, p)
		case !fs.Is(err, fs.ErrInvalid) || !errors.As(err, &fault) || !strings.Contains(err.Error(), want):
			t.Errorf("%.80q: %v, want %s", text, err, want)
		}
	}
}

func TestPrivileged(t *testing.T) {
	p, err := Parse([]byte(`{"privileged": true, "read": ["/srv"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Grant(Terms{}); !fs.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "privileged") {
		t.Errorf("without corp: %v", err)
	}
	g, err := p.Grant(Terms{Privileged: true})
	if err != nil || len(g.Mounts) != 1 || g.Net != profiles.NetNone {
		t.Errorf("with corp: %+v, %v", g, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, allow := range map[string][]string{"none": nil, "network": {"*"}, write("one.json", `{"network": {"outbound": {"allow_host": ["a.example"]}}}`): {"a.example"}} {
		p, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if g, err := p.Grant(Terms{}); err != nil || !reflect.DeepEqual(g.Network.Allow, allow) {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
	for name, want := range map[string]string{
		"": "is not none, not network", "one.json": "is not none", "../one.json": "is not none", dir: "not a regular file", fifo: "not a regular file",
		filepath.Join(dir, "gone"): "no such file", write("big.json", strings.Repeat(" ", 1<<20)): "at most", write("shadow", "root:$y$hash:1:0:99999"): "permission profile",
	} {
		_, err := Load(name)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hash") {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
}

// FuzzParse: what a profile gives is of absolute paths without a way out, at
// places of the guest that are free, and of hosts that guard can read; and a
// profile that was written means what it did.
func FuzzParse(f *testing.F) {
	f.Add(`{"name":"fetch","read":["/data","/src:/dst"],"write":["/cache"],"network":{"mode":"bridge","outbound":{"allow_host":[".example.com"],"allow_port":[443]},"inbound":{}}}`)
	f.Add(`{"network":{"outbound":{"insecure_allow_all":true}},"privileged":true}`)
	f.Add(`{"read":["/a/..","/a:$(b)","C:\\x"]}`)
	terms := Terms{Privileged: true}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse([]byte(text))
		if err != nil {
			return
		}
		g, err := p.Grant(terms)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, m := range g.Mounts {
			if filepath.Clean(m.Host) != m.Host || filepath.Clean(m.Guest) != m.Guest || !filepath.IsAbs(m.Host) || m.Host == "/" || profiles.CheckGuest(m.Guest) != nil {
				t.Errorf("%q mounts %+v", text, m)
			}
		}
		if _, err := guard.ParseHosts(g.Network.Allow, nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
