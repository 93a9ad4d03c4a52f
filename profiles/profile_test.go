package profiles

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/fs"
	"hutch/mcpd/policy"
)

const full = `
image = "debian"
driver = "qemu"
ram = "512MiB"
disk = "2g"
cpus = 1.5
pids = 64
idle = "30m"
ttl = "8h"
net = "none"

[env]
LANG = "C.UTF-8"

[http]
allow = ["wiki.internal", "10.0.0.0/8", "::1", "*.corp"]
max_bytes = "5MiB"
timeout = "1m30s"

[mcpServers.zed]
url = "https://zed.example/mcp"
headers = { "X-Team" = "Bearer abc" }
bearer_token = "t0ken-value"
connect_timeout = "5s"
call_timeout = "1m"

[mcpServers.old]
type = "sse"
url = "http://old.example/sse"
bearerToken = "other"
disabled = true

[mcpServers.github]
command = "github-mcp-server"
args = ["stdio"]
env = { GITHUB_TOKEN = "ghp_x" }
cwd = "/tmp"

[mcpServers.github.capsem]
enabled = true
editable = true
allowed_tools = ["search_repositories", "get_*"]
[mcpServers.github.hutch]
blocked_tools = []
idle_timeout = "10m"
pin = "strict"

[mcpServers.old.hutch]
pin = false
`

func TestParse(t *testing.T) {
	p, err := Parse("full", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	want := &Profile{
		Name: "full", Config: Config{Image: "debian", Driver: "qemu", RAM: 512 << 20, Disk: 2 << 30, CPUs: 1.5, PIDs: 64,
			Idle: 30 * time.Minute, TTL: 8 * time.Hour, Net: "none"},
		Env:     map[string]string{"LANG": "C.UTF-8"},
		HTTP:    HTTP{Allow: []string{"wiki.internal", "10.0.0.0/8", "::1", "*.corp"}, MaxBytes: 5 << 20, Timeout: 90 * time.Second},
		Network: wire.Network{Profile: "full"},
		Servers: []Server{
			{Server: wire.Server{Name: "github", Type: "stdio", Program: wire.Program{Command: "github-mcp-server", Args: []string{"stdio"},
				Env: map[string]string{"GITHUB_TOKEN": "ghp_x"}, Dir: "/tmp"}, Enabled: true,
				IdleTimeout: wire.Duration(10 * time.Minute), Source: "profile", Pin: wire.PinStrict},
				Layer: "user", Allowed: []string{"search_repositories", "get_*"}, Blocked: []string{}, Sandboxed: true},
			{Server: wire.Server{Name: "old", Type: "sse", URL: "http://old.example/sse", BearerToken: "other", Source: "profile", Pin: wire.PinNone}, Layer: "user"},
			{Server: wire.Server{Name: "zed", Type: "http", URL: "https://zed.example/mcp", BearerToken: "t0ken-value",
				Headers: map[string]string{"X-Team": "Bearer abc"}, Enabled: true,
				ConnectTimeout: wire.Duration(5 * time.Second), CallTimeout: wire.Duration(time.Minute), Source: "profile"}, Layer: "user"},
		},
	}
	if p.Policy == nil {
		t.Error("there is no policy")
	}
	p.Policy = nil
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
	secrets := strings.Join(p.Secrets(), " ")
	if secrets != "Bearer abc abc ghp_x other t0ken-value" {
		t.Errorf("secrets: %s", secrets)
	}
	if p, err = Parse("empty", nil); err != nil || Resolve(Layer{Config: p.Config}, BuiltIn).Net != "none" || p.Servers != nil {
		t.Errorf("the empty profile: %+v, %v", p, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"image = ", "line 1: "},
		{"\nimage = \"a\"\nimage = \"b\"", "line 3: "},
		{"\nimge = \"a\"", `line 2: unknown key "imge": did you mean "image"?`},
		{"zzz = 1", `line 1: unknown key "zzz": remove it; known here are image driver kernel ram cpus pids disk records idle ttl net undo undo_keep env http network cmd storage mcp security mcpServers`},
		{"[mcp]\nmax_pending = \"1MiB\"", "line 2: mcp.max_pending is too small: 1MiB < 2MiB"},
		{"[mcp]\nmax_result = \"65MiB\"", "line 2: mcp.max_result is too large: 65MiB > 64MiB"},
		{"[mcp]\nmax_request = \"1GiB\"", "line 2: mcp.max_request is too large: 1GiB > 64MiB"},
		{"[mcp]\nmax_depth = 513", "line 2: mcp.max_depth"},
		{"[http]\nallowed = []", `line 2: unknown key "http.allowed": remove it; known here are allow max_bytes timeout`},
		{"[mcpServers.a]\nurl = \"http://a\"\nbearer_tokn = \"x\"", `line 3: unknown key "mcpServers.a.bearer_tokn": did you mean "bearer_token"?`},
		{"[security.rules.mcp.x]\non = \"mcp.request\"\ndecision = \"block\"\nif = '''\nmcp.request.method == \"a\" &&\n  mcp.request.tol == \"b\"'''", `line 6: security.rules.mcp.x.if column 3: unknown name mcp.request.tol: known are`},
		{"[security.rules.mcp.x]\non = \"mcp.request\"\ndecision = \"block\"\nif = \"true &&\\n foo\"", `line 4: security.rules.mcp.x.if column 2: unknown name foo: known are`},
		{"[security.rules.mcp.x]\non = \"mcp.request\"\ndecision = \"block\"\npriority = -1", `line 4: security.rules.mcp.x.priority -1 is not from 1 to 999: those below are corp's`},
		{"[mcpServers.a]\nurl = \"http://a\"\n[mcpServers.a.hutch.rules]\nx.on = \"dns\"", `line 4: mcpServers.a.hutch.rules.x.on "dns": it is one of mcp.request,`},
		{"[mcpServers.a]\nurl = \"http://a\"\n[mcpServers.a.hutch.rules]\nx = 1", `line 4: mcpServers.a.hutch.rules.x: write a table`},
		{"[mcpServers.a]\nurl = \"http://a\"\n[mcpServers.a.capsem]\nrules = 1", `line 4: unknown key "mcpServers.a.capsem.rules": remove it; known here are enabled editable`},
		{"[security]\nx = 1", `line 2: unknown key "security.x": remove it; known here are default mode hide ask_timeout deny capabilities cedar rules`},
		{"[security.rules.mcp.a]\non = \"mcp.request\"\ndecision = \"block\"\nif = \"mcp.request.tol == ''\"", `line 4: security.rules.mcp.a.if `},
		{"[security.rules.mcp.a]\non = \"mcp.requests\"", `line 2: security.rules.mcp.a.on "mcp.requests": it is one of mcp.request`},
		{"[security.envelope]\nrequired = 1", "line 2: security.envelope.required: write true or false"},
		{"[security.envelope]\nlifetime = \"1s\"", "line 2: security.envelope.lifetime is too short: 1s < 1m"},
		{"kernel = \"vmlinuz\"", `line 1: kernel "vmlinuz" is not an absolute path`},
		{"ram = 512", `line 1: ram: write a size in quotes like "512MiB"`},
		{"[http]\ntimeout = 30", `line 2: http.timeout: write a time in quotes like "30s"`},
		{"ram = \"512 MB\"", `line 1: ram "512 MB" is not a size like 512MiB: a whole number of K, KB, KiB to TiB`},
		{"ram = \"-1\"", `line 1: ram "-1" is not a size`},
		{"ram = \"+1\"", `line 1: ram "+1" is not a size`},
		{"ram = \"9999999999GiB\"", `line 1: ram "9999999999GiB" is not a size`},
		{"cpus = \"two\"", "line 1: cpus: write a number"},
		{"cpus = -1", `line 1: cpus "-1" is not a number from 0.05 to 1024`},
		{"cpus = 0.01", `line 1: cpus "0.01" is not a number`},
		{"cpus = nan", `line 1: cpus "NaN" is not a number`},
		{"pids = 3", `line 1: pids "3" is not a number from 16 to 4194304`},
		{"pids = \"many\"", "line 1: pids: write a number"},
		{"ram = \"1MiB\"", "line 1: ram is too small: 1MiB < 64MiB"},
		{"\ndisk = \"1K\"", "line 2: disk is too small: 1K < 1MiB"},
		{"records = \"1M\"", "line 1: records is too small: 1M < 4MiB"},
		{"idle = \"10ms\"", "line 1: idle is too short: 10ms < 1s"},
		{"ttl = \"soon\"", `line 1: ttl "soon" is not a time like 90s, 30m or 8h`},
		{"ttl = 5", `line 1: ttl: write a time in quotes like "30s"`},
		{"image = 3", "line 1: image: write a text in quotes"},
		{"image = \"../x\"", `line 1: image "../x" is not a name`},
		{"net = \"host\"", `line 1: net "host": it is none or host-proxy`},
		{"env = 3", "line 1: env: write a table"},
		{"http = 3", "line 1: http: write a table"},
		{"mcpServers = 3", "line 1: mcpServers: write a table"},
		{"[[mcpServers]]\nname = \"x\"", "line 1: "},
		{"[env]\nA = \"env:prod\"\nB = \"secret:gh\"", `line 3: variable B would be the text "secret:gh": references to secrets work in env, headers and bearer_token of mcpServers.NAME`},
		{"[env]\n\"A=B\" = \"x\"", `line 1: "A=B" is no name of a variable`},
		{"[http]\ntimeout = \"0s\"", "line 2: http.timeout is too short: 0s < 1ms"},
		{"[http]\nallow = [\n\"http://x/\"]", `line 2: "http://x/" is no host name, address or network`},
		{"\n[mcpServers.a__b]\nurl = \"http://a\"", `line 2: server name "a__b" has two underscores in a row`},
		{"[mcpServers.a_]\nurl = \"http://a\"", `line 1: server name "a_" ends with an underscore`},
		{"[mcpServers.\"\"]\nurl = \"http://a\"", `line 1: server name "" is empty`},
		{"[mcpServers.builtin]\nurl = \"http://a\"", `line 1: server name "builtin" is taken`},
		{"[mcpServers.local]\nurl = \"http://a\"", `line 1: server name "local" is taken`},
		{"[mcpServers.\"a.b\"]\nurl = \"http://a\"", `line 1: server name "a.b" has other characters`},
		{"[mcpServers.a]\n", "line 1: server a has no command and no url: give it one of them"},
		{"\n\n[mcpServers.a]\nurl = \"http://a\"\ncommand = \"x\"", "line 3: server a has both a command and a url: remove one"},
		{"[mcpServers.a]\nserver = \"b\"\nread = [\"/x\"]", "line 3: server a is servers/b, whose config says what it is, and has read: remove one"},
		{"[mcpServers.a]\nserver = \"groups/b\"", `line 2: server a is a group, "b", which a profile cannot have: say each of its members`},
		{"[mcpServers.a]\nserver = \"../b\"", `line 2: server "../b" of server a has other characters`},
		{"[mcpServers.a]\nurl = \"ftp://a\"", `line 2: url "ftp://a" of server a is no URL`},
		{"[mcpServers.a]\nurl = \"http://a\"\nargs = []", "line 3: server a has a url, and args goes with a command"},
		{"[mcpServers.a]\nurl = \"http://a\"\ntype = \"stdio\"", `line 3: type "stdio" of server a does not go with a url`},
		{"[mcpServers.a]\ncommand = \"a\"\ntype = \"sse\"", `line 3: type "sse" of server a does not go with a command`},
		{"[mcpServers.a]\ncommand = \"a\"\nbearer_token = \"x\"", "line 3: server a has a command, and bearer_token goes with a url"},
		{"[mcpServers.a]\nurl = \"http://a\"\nsandbox = false", "line 3: server a has a url, and sandbox goes with a command"},
		{"[mcpServers.a]\nurl = \"http://a\"\n[mcpServers.a.hutch]\nrun_as = \"root\"", "line 4: server a has a url, and run_as goes with a command"},
		{"[mcpServers.a]\ncommand = \"a\"\nrun_as = \"root\"", "line 3: server a runs in a sandbox, and run_as goes with sandbox = false: add that"},
		{"[mcpServers.a]\ncommand = \"a\"\nsandbox = false\nread = [\"/a\"]", "line 4: server a has sandbox = false, and read goes with a sandbox"},
		{"[mcpServers.a]\ncommand = \"a\"\nsandbox = false\nrun_as = \"a b\"", `line 4: mcpServers.a.run_as "a b" is not a name`},
		{"[mcpServers.a]\ncommand = \"a\"\ndir = \"x\"", `line 3: mcpServers.a.dir "x" is not an absolute path`},
		{"[mcpServers.a]\nurl = \"http://a\"\nbearer_token = \"x\"\nbearerToken = \"x\"", "line 4: bearer_token says the same: remove one"},
		{"[mcpServers.a]\nurl = \"http://a\"\nenabled = true\n[mcpServers.a.hutch]\nenabled = true", "line 5: enabled stands in another place too: remove one"},
		{"[mcpServers.a]\nurl = \"http://a\"\nheaders = {\"a b\" = \"x\"}", `line 3: "a b" is no name of a header`},
		{"[mcpServers.a]\nurl = \"http://a\"\n[mcpServers.a.headers]\nx = \"a\\nb\"", "line 4: the value of header x has a line end"},
		{"[mcpServers.a]\nurl = \"http://a\"\nallowed_tools = [\"a__x\"]", `line 3: tool "a__x" is named with its server: write "x"`},
		{"[mcpServers.a]\nurl = \"http://a\"\nblocked_tools = [\"fs*\"]", `line 3: tool "fs*" has a * where it means nothing`},
		{"[mcpServers.a]\nurl = \"http://a\"\nblocked_tools = \"x\"", `line 3: mcpServers.a.blocked_tools: write a list`},
		{"[mcpServers.a]\nurl = \"http://a\"\nenabled = \"yes\"", `line 3: mcpServers.a.enabled: write true or false`},
		{"[mcpServers.a]\nurl = \"http://a\"\npin = \"none\"", `line 3: mcpServers.a.pin: write true, false or "strict"`},
		{"[mcpServers.a]\nurl = \"http://a\"\npin = [true]", `line 3: mcpServers.a.pin: write true, false or "strict"`},
		{"[mcpServers.a]\nurl = \"http://a\"\npin = {}", `line 3: mcpServers.a.pin: write true, false or "strict"`},
		{"\xff\xfe", "line 1: "},
	} {
		p, err := Parse("p", []byte(tt.text))
		if err == nil {
			t.Errorf("%q is accepted: %+v", tt.text, p)
			continue
		}
		text := err.Error()
		want := "invalid argument: profile p, " + tt.want
		if !strings.HasPrefix(text, want) || strings.Contains(text, "\n") || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q\n got %s\nwant %s", tt.text, text, want)
		}
	}
	if _, err := Parse("p", make([]byte, maxText+1)); !errors.Is(err, fs.ErrTooLarge) {
		t.Errorf("a huge profile: %v", err)
	}
	if _, err := Parse("../p", nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a bad name: %v", err)
	}
}

// The built-in profile parses, and so do its examples.
func TestBuiltin(t *testing.T) {
	p, err := Parse(Default, builtin)
	if err != nil {
		t.Fatal(err)
	}
	if p.Image != "host" || p.Driver != "" || len(p.Servers) != 0 {
		t.Errorf("%+v", p)
	}
	var b strings.Builder
	for line := range strings.Lines(string(builtin)) {
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(rest, " ") {
			line = rest
		}
		b.WriteString(line)
	}
	if p, err = Parse(Default, []byte(b.String())); err != nil {
		t.Fatal(err)
	}
	if len(p.Servers) != 2 || p.RAM == 0 || p.Env == nil || p.HTTP.Allow == nil {
		t.Errorf("with its examples: %+v", p)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	f.Add(builtin)
	f.Add([]byte("[mcpServers.a]\nurl=\"x\"\n[mcpServers.a.capsem]\nenabled=1"))
	f.Add([]byte("a.b.c = {d = [1, 2.0, 1979-05-27], e.f = '''x'''}\n[[q]]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse("p", text)
		switch {
		case err == nil:
			for _, s := range p.Servers {
				if s.Name == "" || (s.URL == "") == (s.Command == "") {
					t.Errorf("%+v", s)
				}
			}
		case strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "profile p, line "):
			t.Errorf("%q", err)
		}
	})
}

// A rule of a server decides what is about that server.
func TestServerRules(t *testing.T) {
	p, err := Parse("x", []byte(`
[mcpServers.a]
url = "http://a"
[mcpServers.a.hutch.rules.no-writes]
on = "mcp.request"
if = 'mcp.request.tool_name.startsWith("write")'
decision = "block"
reason = "read only"
`))
	if err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{"a": "mcpServers.a.hutch.rules.no-writes", "b": "default"} {
		d := p.Policy.Decide(&policy.Event{On: policy.OnRequest, Method: "tools/call", Server: server, Tool: "write_file", Known: true})
		if d.Rule != want {
			t.Errorf("%s: %+v", server, d)
		}
	}
}
