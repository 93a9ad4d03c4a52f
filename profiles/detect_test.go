package profiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
)

// home gives a store a home with files.
func home(t *testing.T, s *Store, files map[string]string) {
	t.Helper()
	s.home = t.TempDir()
	for name, text := range files {
		path := filepath.Join(s.home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDetected(t *testing.T) {
	const from = "[import]\nfrom = [\"claude\", \"gemini\"]\n"
	for name, tt := range map[string]struct {
		profile, corp string
		files         map[string]string
		want, notes   string
	}{
		"claude": {profile: from, files: map[string]string{".claude.json": `{"numStartups": 3, "projects": {"/x": {"mcpServers": {"no": {"command": "x"}}}},
			// its servers
			"mcpServers": {"a": {"type": "stdio", "command": "x", "args": ["y"], "env": {}}, "b": {"type": "http", "url": "http://b"},},}`},
			want: "a(detected x []) b(detected http://b [])"},
		"hutch itself": {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}, "hutch": {"command": "/usr/bin/hutch", "args": ["-s", "unix!/x", "mcp"]}, "dev": {"command": "hutch", "args": ["mcp-session", "dev"]}}}`},
			want: "a(detected x [])"},
		"gemini":          {profile: from, files: map[string]string{".gemini/settings.json": `{"mcpServers": {"a": {"httpUrl": "http://a", "timeout": 3000, "trust": true, "includeTools": ["t"], "oauth": {"x": 1}}}}`}, want: "a(detected http://a [t])"},
		"not asked":       {profile: "pids = 16", files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}}}`}, want: "pids=16"},
		"no files":        {profile: from, want: ""},
		"shadows nothing": {profile: from + "[mcpServers.a]\nurl = \"http://mine\"", files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}}}`}, want: "a(user http://mine [])"},
		"nor each other":  {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}}}`, ".gemini/settings.json": `{"mcpServers": {"a": {"command": "y"}}}`}, want: "a(detected x [])"},
		"bad names": {profile: from, files: map[string]string{".claude.json": "{\"mcpServers\": {\"\": {\"command\": \"x\"},\n\"a__b\": {\"command\": \"x\"},\n\"builtin\": {\"command\": \"x\"},\n\"ok\": {\"command\": \"x\"}}}"},
			want: "ok(detected x [])", notes: "profile dev: ~/.claude.json, line 1: server name \"\" is empty: give it one\nprofile dev: ~/.claude.json, line 2: server name \"a__b\" has two underscores in a row, which end a server's name in a tool's: choose another\nprofile dev: ~/.claude.json, line 3: server name \"builtin\" is taken by the built-in tools: choose another\n"},
		"bad servers": {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": {}, "b": 3, "c": {"url": 3}, "d": {"command": "x", "includeTools": ["a*b"]}, "e": null}}`},
			want: "", notes: "server a has no command and no url"},
		"rules": {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x", "hutch": {"allowed_tools": ["t"], "rules": {"r": {"on": "mcp.request", "decision": "allow", "priority": 1}}}}}}`}, want: "a(detected x [t])"},
		"on the host": {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x", "sandbox": false}, "b": {"command": "x", "hutch": {"sandbox": false, "run_as": "root"}}, "c": {"command": "x"}}}`},
			want: "c(detected x [])", notes: "only a profile can have a server run on the host"},
		"no object": {profile: from, files: map[string]string{".claude.json": `[]`}, notes: "~/.claude.json, line 1: is no JSON object"},
		"no JSON":   {profile: from, files: map[string]string{".claude.json": "{\n\"mcpServers\": {]"}, notes: "~/.claude.json, line 2: "},
		"deep":      {profile: from, files: map[string]string{".claude.json": `{"mcpServers": {"a": ` + strings.Repeat("[", 100000)}, notes: "deeper than 32"},
		"huge":      {profile: from, files: map[string]string{".claude.json": `{"x": "` + strings.Repeat("x", maxClient)}, notes: "~/.claude.json has more than 16777216 bytes"},
		"many": {profile: from, files: map[string]string{".claude.json": `{"x": [` + strings.Repeat("1,", maxValues) + `1], "mcpServers": {"a": {"command": "x"}}}`,
			".gemini/settings.json": `{"mcpServers": {"b": {"args": [` + strings.Repeat("\n1,", maxValues) + `1]}}}`},
			want: "a(detected x [])", notes: "~/.gemini/settings.json, line 9998: says more than 10000 things of servers"},
		"corp leaves none": {profile: from, corp: "[editable]\nmcpServers = false", files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}}}`},
			notes: "~/.claude.json, line 1: mcpServers.a.command is locked by corp"},
		"corp forbids one": {profile: from, corp: directives([4]string{"forbid", "mcpServers.a", "no"}), files: map[string]string{".claude.json": `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}`},
			want: "b(detected x [])", notes: "mcpServers.a.command is forbidden by corp"},
		"no such client": {profile: "import.from = [\"emacs\"]", want: `!profile dev, line 1: "emacs" is no client: they are claude gemini`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if tt.corp != "" {
				h.sign("all.toml", tt.corp)
			}
			home(t, h.Store, tt.files)
			lay(t, h.Store, map[string]string{"dev.toml": tt.profile})
			p, err := h.Get("dev")
			if want, fails := strings.CutPrefix(tt.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			if err != nil || said(p) != tt.want {
				t.Errorf("got %s, %v, want %s", said(p), err, tt.want)
			}
			if notes := h.Err(); !strings.Contains(notes, tt.notes) || tt.notes == "" && notes != "" {
				t.Errorf("err has %s, want %s", notes, tt.notes)
			}
			for _, s := range p.Servers {
				if s.Layer == ofDetected && !strings.HasPrefix(s.Source, "~/.") {
					t.Errorf("the source of %s is %s", s.Name, s.Source)
				}
			}
		})
	}
}

// TestDetectedFiles has clients' files that are links and pipes, and that change.
func TestDetectedFiles(t *testing.T) {
	s := openStore(t)
	home(t, s, map[string]string{"dotfiles/claude": `{"mcpServers": {"a": {"command": "x"}}}`})
	if err := errors.Join(os.Symlink("dotfiles/claude", filepath.Join(s.home, ".claude.json")), os.Mkdir(filepath.Join(s.home, ".gemini"), 0o700),
		syscall.Mkfifo(filepath.Join(s.home, ".gemini", "settings.json"), 0o600)); err != nil {
		t.Fatal(err)
	}
	write(t, s, "dev.toml", "import.from = [\"claude\", \"gemini\"]")
	if p := get(t, s, "dev"); said(p) != "a(detected x [])" || !strings.Contains(s.Err(), "~/.gemini/settings.json is not an ordinary file") {
		t.Errorf("%s\n%s", said(p), s.Err())
	}
	if err := os.WriteFile(filepath.Join(s.home, "dotfiles/claude"), []byte(`{"mcpServers": {"b": {"command": "x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := get(t, s, "dev"); said(p) != "b(detected x [])" {
		t.Error(said(p))
	}
}

func TestJSONDropIn(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"b": {"command": "x", "disabled": true}}}`:        "pids=16 b(user x off [])",
		"// mine\n{\"mcpServers\": {\"b\": {\"url\": \"http://b\",},},}":   "pids=16 b(user http://b [])",
		"{\"mcpServers\": {\"b\":\n{\"comand\": \"x\"}}}":                  `!dev.d/b.json, line 2: unknown key "mcpServers.b.comand": did you mean "command"?`,
		"{\"mcpServers\": {\"b\": {\"url\": \"x\",\n\"httpUrl\": \"y\"}}}": "!dev.d/b.json, line 2: url says the same: remove one",
		"{\"mcpServers\": {\"b\": {}}, \"mcpServers\": 3}":                 "!dev.d/b.json, line 1: mcpServers: write a table",
		"{}":   "pids=16",
		"{} 1": "!dev.d/b.json, line 1: ",
		"":     "!dev.d/b.json, line 1: ",
	} {
		s := openStore(t)
		lay(t, s, map[string]string{"dev.toml": "pids = 16", "dev.d/b.json": text})
		p, err := s.Get("dev")
		want, fails := strings.CutPrefix(want, "!")
		if fails && (err == nil || !strings.Contains(err.Error(), "profile dev, "+want)) || !fails && (err != nil || said(p) != want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestNotHere asks for connectors that stand elsewhere.
func TestNotHere(t *testing.T) {
	h := newHouse(t)
	h.sign("all.toml", "mcpServers.c.command = \"x\"")
	home(t, h.Store, map[string]string{".claude.json": `{"mcpServers": {"d": {"command": "x"}}}`})
	lay(t, h.Store, map[string]string{"dev.toml": "import.from = [\"claude\"]\nmcpServers.u.command = \"x\"", "dev.d/x.json": "{}"})
	for path, want := range map[string]string{
		"dev.d/c.toml":  "dev.d/c.toml: server c of profile dev is corp's, and cannot be removed (" + h.corp + "/all.toml, line 1)",
		"dev.d/d.json":  "server d of profile dev was detected, and is removed there (~/.claude.json, line 1)",
		"dev.d/u.toml":  "server u of profile dev stands in another file (dev.toml, line 2)",
		"dev.d/n.toml":  "",
		"dev.d/c":       "",
		"none.d/c.toml": "",
		"c.toml":        "",
		"dev/c.toml":    "",
	} {
		err := h.NotHere(path)
		if (err != nil) != (want != "") || err != nil && (!errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"mcpServers": {"a": {"command": "x", "timeout": 1, "disabled": false}}}`)
	f.Add(`{"x": [1, {"y": null}], "mcpServers": {"": 3}} // end`)
	f.Add(`{"mcpServers": {"a": {"httpUrl": 1e999}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := readJSON(place{layer: ofDetected, file: "x.json"}, []byte(text))
		if err == nil {
			_, _, err = build("p", []*document{d})
		}
		if err != nil && !strings.Contains(err.Error(), "line ") {
			t.Error(err)
		}
	})
}
