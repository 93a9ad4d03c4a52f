package profiles

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hutch/fs"
	"hutch/mcpd/policy"
)

// lay writes files into a store's folder, with the folders that they are in.
func lay(t *testing.T, s *Store, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.Dir(), name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, s, name, text)
	}
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Folders{Profiles: filepath.Join(t.TempDir(), "profiles"), Good: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// said returns what a profile is after a test, in words.
func said(p *Profile) string {
	var b strings.Builder
	for k, v := range p.Config.All() {
		fmt.Fprintf(&b, "%s=%s ", k, v)
	}
	for _, s := range p.Servers {
		fmt.Fprintf(&b, "%s(%s %s%s", s.Name, s.Layer, s.URL, s.Command)
		if !s.Enabled {
			b.WriteString(" off")
		}
		fmt.Fprintf(&b, " %v) ", s.Allowed)
	}
	for _, r := range p.Security.Rules {
		fmt.Fprintf(&b, "%s(%s %s %d) ", r.ID, r.Layer, r.Decision, r.Priority)
	}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(&b, "%s=%s ", k, p.Env[k])
	}
	return strings.TrimSpace(b.String())
}

func TestLayers(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // of dev; an error if it begins with !
	}{
		"alone":              {map[string]string{"dev.toml": `ram = "1GiB"`}, "ram=1GiB"},
		"a drop-in adds":     {map[string]string{"dev.toml": `ram = "1GiB"`, "dev.d/a.toml": "cpus = 2"}, "ram=1GiB cpus=2"},
		"the last counts":    {map[string]string{"dev.toml": `pids = 16`, "dev.d/b.toml": "pids = 18", "dev.d/a.toml": "pids = 17"}, "pids=18"},
		"tables are merged":  {map[string]string{"dev.toml": "[mcpServers.x]\nurl = \"http://a\"", "dev.d/a.toml": "mcpServers.x.allowed_tools = [\"t\"]\nmcpServers.y.command = \"z\""}, "x(user http://a [t]) y(user z [])"},
		"lists are replaced": {map[string]string{"dev.toml": "[mcpServers.x]\nurl = \"http://a\"\nallowed_tools = [\"a\", \"b\"]", "dev.d/a.toml": "mcpServers.x.hutch.allowed_tools = [\"t\"]"}, "x(user http://a [t])"},
		"other names of it":  {map[string]string{"dev.toml": "[mcpServers.x]\nurl = \"http://a\"\nenabled = true", "dev.d/a.toml": "mcpServers.x.disabled = true"}, "x(user http://a off [])"},
		"no drop-ins":        {map[string]string{"dev.toml": `pids = 16`, "dev.d/a.toml~": "x", "dev.d/.a.toml.swp": "x", "dev.d/4913": "x", "dev.d/#a.toml#": "x", "dev.d/README": "x"}, "pids=16"},
		"extends":            {map[string]string{"dev.toml": "extends = \"base\"\npids = 16", "base.toml": "pids = 20\ncpus = 2", "base.d/x.toml": `ram = "1GiB"`}, "ram=1GiB cpus=2 pids=16"},
		"the default":        {map[string]string{"dev.toml": "extends = \"default\"\npids = 16"}, "image=host pids=16 net=none"},
		"extends itself":     {map[string]string{"dev.toml": "extends = \"dev\""}, `!profile dev, line 1: extends: profile "dev" is made of this one: extend another`},
		"a circle":           {map[string]string{"dev.toml": "\nextends = \"a\"", "a.toml": "\n\nextends = \"dev\""}, `!profile dev, a.toml, line 3: extends: profile "dev" is made of this one`},
		"extends nothing":    {map[string]string{"dev.toml": "\nextends = \"a\""}, `!profile dev, line 2: extends: profile "a" does not exist`},
		"extends a path":     {map[string]string{"dev.toml": "\nextends = \"../a\""}, `!profile dev, line 2: extends: profile "../a" is no name`},
		"a bad drop-in":      {map[string]string{"dev.toml": "pids = 16", "dev.d/a.toml": "\npids = 1"}, `!profile dev, dev.d/a.toml, line 2: pids "1" is not a number`},
		"bad TOML":           {map[string]string{"dev.toml": "pids = 16", "dev.d/a.toml": "\npids = "}, `!profile dev, dev.d/a.toml, line 2: `},
		"a bad base":         {map[string]string{"dev.toml": "extends = \"a\"", "a.toml": "pid = 20", "a.d/x.toml": ""}, `!profile dev, a.toml, line 1: unknown key "pid"`},
		"together wrong":     {map[string]string{"dev.toml": "[mcpServers.x]\nurl = \"http://a\"", "dev.d/a.toml": "\n[mcpServers.x]\ncommand = \"y\""}, `!profile dev, dev.d/a.toml, line 2: server x has both a command and a url`},
		"rules": {map[string]string{"dev.toml": "[security.rules.mcp.a]\non = \"mcp.request\"\ndecision = \"block\"", "dev.d/a.toml": "security.rules.mcp.a.priority = 7\n[security.rules.mcp.\"b.c\"]\non = \"mcp.request\"\ndecision = \"ask\""},
			`security.rules.mcp.a(user block 7) security.rules.mcp."b.c"(user ask 100)`},
		"a rule with an odd name": {map[string]string{"dev.toml": "", "dev.d/a.toml": "\n[security.rules.mcp.\"b.c\"]\non = \"mcp.request\"\ndecision = \"asks\""}, `!profile dev, dev.d/a.toml, line 4: security.rules.mcp."b.c".decision `},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			lay(t, s, tt.files)
			p, err := s.Get("dev")
			want, fails := strings.CutPrefix(tt.want, "!")
			switch {
			case fails && (err == nil || !strings.HasPrefix(fs.Text(err), "invalid argument: "+want)):
				t.Errorf("got %+v, %v, want %s", p, err, want)
			case !fails && (err != nil || said(p) != want):
				t.Errorf("got %s, %v, want %s", said(p), err, want)
			}
			if fails {
				return
			}
			// What is kept of it means the same.
			text, _ := os.ReadFile(filepath.Join(s.good, "dev.toml"))
			if kept, err := Parse("dev", text); err != nil || said(kept) != want {
				t.Errorf("kept is %s, %v:\n%s", said(kept), err, text)
			}
		})
	}
}

// Eight profiles can be extended, not nine.
func TestExtendsDeep(t *testing.T) {
	s := openStore(t)
	for i := range 10 {
		write(t, s, fmt.Sprintf("p%d.toml", i), fmt.Sprintf("extends = \"p%d\"", i-1))
	}
	write(t, s, "p0.toml", "pids = 16")
	if p := get(t, s, "p8"); p.PIDs != 16 {
		t.Errorf("%+v", p)
	}
	if _, err := s.Get("p9"); err == nil || !strings.Contains(err.Error(), "one too many") {
		t.Errorf("p9: %v", err)
	}
}

// TestDropIns edits a drop-in as editors do, and has what a profile meant stay
// while one of them is broken, over a restart, too.
func TestDropIns(t *testing.T) {
	s := openStore(t)
	lay(t, s, map[string]string{"dev.toml": "pids = 16", "dev.d/x.toml": "cpus = 1"})
	if p := get(t, s, "dev"); said(p) != "cpus=1 pids=16" {
		t.Error(said(p))
	}
	path := func(name string) string { return filepath.Join(s.Dir(), "dev.d", name) }
	write(t, s, "dev.d/x.toml.tmp", "cpus = 2")
	if err := errors.Join(os.Rename(path("x.toml"), path("x.toml~")), os.Rename(path("x.toml.tmp"), path("x.toml"))); err != nil {
		t.Fatal(err)
	}
	if p := get(t, s, "dev"); said(p) != "cpus=2 pids=16" {
		t.Error(said(p))
	}
	write(t, s, "dev.d/x.toml", "cpus = lots")
	for range 2 {
		if p := get(t, s, "dev"); said(p) != "cpus=2 pids=16" {
			t.Error(said(p))
		}
		if !strings.HasPrefix(s.Err(), "invalid argument: profile dev, dev.d/x.toml, line 1: ") {
			t.Error(s.Err())
		}
		var err error
		if s, err = Open(Folders{Profiles: s.Dir(), Good: s.good}); err != nil {
			t.Fatal(err)
		}
	}
	os.Remove(path("x.toml"))
	if p := get(t, s, "dev"); said(p) != "pids=16" || s.Err() != "" {
		t.Error(said(p), s.Err())
	}
}

// TestLookHolds has files that did not change not be read again.
func TestLookHolds(t *testing.T) {
	s := openStore(t)
	lay(t, s, map[string]string{"dev.toml": "extends = \"base\"", "base.toml": "pids = 16", "dev.d/x.toml": "cpus = 1"})
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"dev.toml", "base.toml", "dev.d/x.toml", "dev.d"} {
		if err := os.Chtimes(filepath.Join(s.Dir(), name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	first := get(t, s, "dev")
	if get(t, s, "dev") != first {
		t.Error("files that did not change are read again")
	}
	for _, name := range []string{"base.toml", "dev.d/x.toml", "dev.d/y.toml", "base.d/z.toml"} {
		was := get(t, s, "dev")
		lay(t, s, map[string]string{name: "pids = 17"})
		if get(t, s, "dev") == was {
			t.Errorf("a change of %s is not seen", name)
		}
	}
}

func TestAddRule(t *testing.T) {
	s := openStore(t)
	lay(t, s, map[string]string{"dev.toml": "pids = 16"})
	r := policy.Rule{ID: "echo", On: policy.OnRequest, If: `mcp.request.tool_name == "it's \"x\""`, Decision: policy.Allow, Priority: 5, Reason: "asked"}
	for range 2 {
		if err := s.AddRule("dev", r); err != nil {
			t.Fatal(err)
		}
	}
	p := get(t, s, "dev")
	if want := "pids=16 security.rules.asks.echo(user allow 5) security.rules.asks.echo-2(user allow 5)"; said(p) != want {
		t.Errorf("got %s, want %s", said(p), want)
	}
	r.ID, r.Layer = "security.rules.asks.echo", ofUser
	if got := p.Security.Rules[0]; !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v, want %+v", got, r)
	}
	r.If = "no.such == 1"
	if err := s.AddRule("dev", r); err == nil || !strings.Contains(err.Error(), "dev.d/asks.toml, line 20") {
		t.Errorf("a rule that does not compile: %v", err)
	}
	if err := s.AddRule("none", r); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no profile: %v", err)
	}
	if err := s.AddRule("", policy.Rule{On: policy.OnRequest, Decision: policy.Allow}); err != nil || said(get(t, s, "")) == "" || len(get(t, s, "").Security.Rules) != 1 {
		t.Errorf("of the default: %v", err)
	}
}

func TestParseKey(t *testing.T) {
	for text, want := range map[string]key{
		"net":                       {"net"},
		`mcpServers."a.b".url`:      {"mcpServers", "a.b", "url"},
		`a . 'b c' . "d\u00e9\"."`:  {"a", "b c", "dé\"."},
		`a.""`:                      {"a", ""},
		"":                          nil,
		"a.":                        nil,
		".a":                        nil,
		"a b":                       nil,
		`"a`:                        nil,
		`"a\"`:                      nil,
		`"\q"`:                      nil,
		"\"a\nb\"":                  nil,
		"é":                         nil,
		`mcpServers."a" = 1 #".url`: nil,
	} {
		got, err := parseKey(text)
		if (err == nil) != (want != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, text := range []string{"a.b", `a."b.c"`, `'a'."\u007f"`, `"`, "a..b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseKey(text)
		if err != nil {
			return
		}
		again, err := parseKey(k.String())
		if err != nil || !reflect.DeepEqual(again, k) {
			t.Errorf("%q is %q, again %q: %v", text, k, again, err)
		}
	})
}

// FuzzLayers has what two files say together mean the same as one.
func FuzzLayers(f *testing.F) {
	f.Add(full, "[mcpServers.github]\ndisabled = true\nallowed_tools = []")
	f.Add("a.b = 1", "a = 2")
	f.Add("[env]\n\"a\\u007f\" = \"\\u0000\"", "env = {}\ncpus = 1.0")
	f.Fuzz(func(t *testing.T, one, two string) {
		var docs []*document
		for i, text := range []string{one, two} {
			d, err := readTOML(place{layer: ofUser, file: fmt.Sprint(i)}, []byte(text))
			if err != nil {
				return
			}
			docs = append(docs, d)
		}
		p, l, err := build("p", docs)
		if err != nil {
			if !strings.Contains(err.Error(), ", line ") {
				t.Error(err)
			}
			return
		}
		text, err := l.text(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("p", text)
		if err != nil || said(again) != said(p) {
			t.Errorf("%q and %q mean %s, and as one file %s: %v", one, two, said(p), said(again), err)
		}
	})
}

// A file that does not count where it looks as if it did is told of.
func TestLeftOut(t *testing.T) {
	s := openStore(t)
	lay(t, s, map[string]string{
		"dev.toml": "\ufeffpids = 16", "dev.d/a b.toml": "junk", "dev.d/up.TOML": "junk", "dev.d/.swap.toml": "junk", "dev.d/x.toml~": "junk",
		"dev.d/c.json": `{"mcpServers": {"a": {"command": "x"}}, "security": {"default": "block"}}`,
	})
	if p := get(t, s, "dev"); said(p) != "pids=16 a(user x [])" {
		t.Error(said(p))
	}
	want := `profile dev: 'dev.d/a b.toml' does not count, as its name has other characters than letters, digits, dots, dashes and underscores: call it something like connector.toml
profile dev: dev.d/up.TOML does not count, as its name ends in .TOML: call it something like connector.toml
profile dev: dev.d/c.json: security means nothing in a .json, of which only mcpServers is read: say it in a .toml
`
	if got := s.Err(); got != want {
		t.Errorf("err has\n%s\nwant\n%s", got, want)
	}
}

// TestManyKeys has as many keys as may be, and more, in each place.
func TestManyKeys(t *testing.T) {
	for what, one := range map[string]string{"": "A%d = \"x\"\n", "table ": "[mcpServers.s%d]\n", "of a table ": "A%d = \"x\", "} {
		for n, want := range map[int]bool{maxKeys: true, maxKeys + 10: false} {
			var b strings.Builder
			for i := range n - 2 {
				fmt.Fprintf(&b, one, i)
			}
			text := b.String()
			switch what {
			case "":
				text = "[env]\n" + text
			case "of a table ":
				text = "env = {" + text + "B = \"\"}"
			}
			if _, err := Parse("p", []byte(text)); want == (err != nil && strings.Contains(err.Error(), "more than 10000 keys")) {
				t.Errorf("%s%d keys: %.200v", what, n, err)
			}
		}
	}
}

// TestLongKeys has ways to values that are too long to keep all that lead there.
func TestLongKeys(t *testing.T) {
	for text, want := range map[string]string{
		"[" + strings.Repeat("a.", 500_000) + "a]\nb = 1":    "has 33 names",
		strings.Repeat("a.", 500_000) + "a = 1":              "has 33 names",
		"x = [{" + strings.Repeat("a.", 500_000) + "a = 1}]": "has 33 names",
		"net." + strings.Repeat("a", 1<<10) + " = 1":         "1028 bytes, at most 32 and 1024",
	} {
		if _, err := Parse("p", []byte(text)); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.20q: %.500v, want %s", text, err, want)
		}
	}
}
