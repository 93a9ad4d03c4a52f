package profiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
)

func TestShow(t *testing.T) {
	h := newHouse(t)
	h.sign("all.toml", "disk = \"1GiB\"\n[security.rules.mcp.a]\non = \"mcp.request\"\ndecision = \"block\"\n"+directives(
		[4]string{"lock", "net", "no"}, [4]string{"forbid", "mount", ""}, [4]string{"forbid", "network.allow", "", `["*", "x"]`}, [4]string{"lock", "cpus", "", "0.5"}))
	lay(t, h.Store, map[string]string{
		"dev.toml":     "extends = \"base\"\nram = \"1GiB\"\n[mcpServers.x]\nurl = \"http://a\"\nheaders = {A = \"b\"}\nargs = [\"--token=0123456789abcdef\"]\n",
		"dev.d/b.toml": "[mcpServers.x]\nbearer_token = \"0123456789abcdef\"\n",
		"base.toml":    "env = {\"a b\" = \"c\\u007f\"}",
	})
	text, err := h.Show("dev")
	if err == nil || !strings.Contains(err.Error(), "args goes with a command") {
		t.Fatal(err)
	}
	lay(t, h.Store, map[string]string{"dev.toml": "extends = \"base\"\nram = \"1GiB\"\n[mcpServers.x]\nurl = \"http://a/0123456789abcdef\"\nheaders = {A = \"b\"}\n"})
	if text, err = h.Show("dev"); err != nil {
		t.Fatal(err)
	}
	want := `cpus corp CORP/all.toml:18 locked 0.5
disk corp CORP/all.toml:1 open "1GiB"
'env."a b"' user base.toml:1 open "c\u007f"
extends user dev.toml:1 open "base"
image built-in - open "host"
mcpServers.x.bearer_token user dev.d/b.toml:2 open "***"
mcpServers.x.headers.A user dev.toml:5 open "***"
mcpServers.x.url user dev.toml:4 open "***"
mount corp CORP/all.toml:9 forbidden -
net built-in - locked "none"
network.allow corp CORP/all.toml:13 forbidden ["*", "x"]
pids built-in - open 512
ram user dev.toml:2 open "1GiB"
records built-in - open "256MiB"
security.rules.mcp.a.decision corp CORP/all.toml:4 locked "block"
security.rules.mcp.a.on corp CORP/all.toml:3 locked "mcp.request"
security.rules.mcp.a.priority corp CORP/all.toml:2 locked -100
undo built-in - open "none"
undo_keep built-in - open 20
`
	for line := range strings.Lines(strings.ReplaceAll(want, "CORP", h.corp)) {
		if !strings.Contains(text, line) {
			t.Errorf("there is no line %s", line)
		}
	}
	if strings.Count(text, "\n") != strings.Count(want, "\n") {
		t.Errorf("got\n%s", text)
	}
	// What is kept over a restart is shown, too.
	write(t, h.Store, "dev.toml", "ram = 1")
	h.again()
	if text, err = h.Show("dev"); err != nil || !strings.Contains(text, "ram kept - open \"1GiB\"\n") {
		t.Errorf("got\n%s%v", text, err)
	}
	if _, err := h.Show("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestSign makes keys, signs with them, and has a store take it.
func TestSign(t *testing.T) {
	for _, password := range []string{"", "open sesame"} {
		h := newHouse(t)
		public, private, err := NewKey(password)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(h.corp, "all.toml")
		os.WriteFile(filepath.Join(h.corp, publicKey), public, 0o644)
		os.WriteFile(path, []byte("pids = 20\n"), 0o644)
		if err := Sign(path, private, password); err != nil {
			t.Fatal(err)
		}
		if p := get(t, h.Store, ""); p.PIDs != 20 {
			t.Errorf("%+v, %s", p, h.Err())
		}
		if err := Sign(path, private, "wrong"); (err == nil) != (password == "") {
			t.Errorf("with a wrong password: %v", err)
		}
		if password != "" { // which takes a second to derive a key from, each time
			continue
		}
		if err := Sign(path, []byte("no key"), password); err == nil {
			t.Error("signed without a key")
		}
		os.WriteFile(path, []byte("\n[[directive]]\n"), 0o644)
		if err := Sign(path, private, password); err == nil || !strings.Contains(err.Error(), path+", line 2: ") {
			t.Errorf("what does not parse: %v", err)
		}
		if err := Sign(filepath.Join(h.corp, publicKey), private, password); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("another file: %v", err)
		}
	}
}

func TestCheckFile(t *testing.T) {
	h := newHouse(t)
	h.sign("all.toml", directives([4]string{"lock", "net", "no", `"none"`}))
	lay(t, h.Store, map[string]string{"dev.toml": "pids = 20", "bad.toml": "net = \"host-proxy\"", "dev.d/x.toml": "\npids = 1", "none.d/x.toml": ""})
	for file, want := range map[string]string{
		"default.toml":  "",
		"dev.toml":      "profile dev, dev.d/x.toml, line 2: pids",
		"dev.d/x.toml":  "profile dev, dev.d/x.toml, line 2: pids",
		"bad.toml":      "profile bad, line 1: net is locked by corp",
		"none.toml":     "no such file",
		"none.d/x.toml": "there is no profile none beside",
	} {
		err := CheckFile(filepath.Join(h.dir, file), h.corp)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
	for text, want := range map[string]string{
		"serial = 9\nnet = \"none\"\n":                                     "",
		"serial = 9\nnte = \"none\"\n":                                     `all.toml, line 2: unknown key "nte"`,
		"serial = 9\n[[directive]]\noperation = \"lok\"\npath = \"net\"\n": "lok",
	} {
		h.sign("all.toml", text)
		err := CheckFile(filepath.Join(h.corp, "all.toml"), h.corp)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("corp's %q: %v, want %s", text, err, want)
		}
	}
	if err := CheckFile(filepath.Join(h.dir, "bad.toml"), ""); err != nil {
		t.Errorf("without corp: %v", err)
	}
}
