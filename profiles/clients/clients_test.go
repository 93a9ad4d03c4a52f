package clients

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hutch/fs"
)

var update = flag.Bool("u", false, "write what comes of the samples instead of comparing it")

// newHome returns a home with the file of a client; none if text is nil.
func newHome(t *testing.T, client string, text []byte) (*Home, string) {
	t.Helper()
	dir := t.TempDir()
	h := &Home{Dir: filepath.Join(dir, "home"), Backups: filepath.Join(dir, "clients"), Program: filepath.Join(dir, "hutch"), Address: "unix!/run/hutch/9p"}
	c, err := Find(client)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.Dir, c.path())
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(h.Program, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if text != nil {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return h, path
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var dev = Server{"dev", []string{"mcp-session", "dev"}}

// TestTable has a server put into a sample of each client's file, compares
// what comes of it, and takes it out again: then the file is what it was, to
// the byte.
func TestTable(t *testing.T) {
	if !slices.IsSorted(Names()) {
		t.Error("the table is not in order")
	}
	for _, c := range table {
		t.Run(c.Name, func(t *testing.T) {
			before := read(t, filepath.Join("testdata", c.Name+".before"))
			h, path := newHome(t, c.Name, before)
			h.Program, h.Address = "/usr/bin/env", "unix!/run/hutch/9p" // which is there, and the same for all
			if err := h.Add(t.Context(), c.Name, dev); err != nil {
				t.Fatal(err)
			}
			after := read(t, path)
			golden := filepath.Join("testdata", c.Name+".after")
			if *update {
				os.WriteFile(golden, after, 0o644)
			}
			if want := read(t, golden); string(after) != string(want) {
				t.Errorf("the file is\n%swant\n%s", after, want)
			}
			s, err := h.Status(t.Context(), c.Name)
			if err != nil || s.Err != nil || !reflect.DeepEqual(s.Servers, []Server{dev}) || s.Backup.IsZero() {
				t.Errorf("%+v, %v", s, err)
			}
			if err := h.Add(t.Context(), c.Name, dev); err != nil || string(read(t, path)) != string(after) {
				t.Errorf("once more: %v\n%s", err, read(t, path))
			}
			if err := h.Remove(t.Context(), c.Name, dev.Words); err != nil {
				t.Fatal(err)
			}
			if is := read(t, path); string(is) != string(before) && !emptied[c.Name] {
				t.Errorf("without the server the file is\n%q, was\n%q", is, before)
			}
			if err := h.Restore(t.Context(), c.Name, false); err != nil || string(read(t, path)) != string(before) {
				t.Errorf("restored: %v\n%s", err, read(t, path))
			}
		})
	}
}

// emptied are the clients whose sample has no place for servers: an empty one
// stays.
var emptied = map[string]bool{"qoder": true, "trae": true}

// TestEnds has a file end as it did, whatever it ends in.
func TestEnds(t *testing.T) {
	for _, end := range []string{"\n// end", "// end\r\n", " /* end */", "\n\n", ""} {
		h, path := newHome(t, "cursor", []byte("{}"+end))
		if err := h.Add(t.Context(), "cursor", dev); err != nil || !strings.HasSuffix(string(read(t, path)), "}"+end) {
			t.Errorf("%q: %q, %v", end, read(t, path), err)
		}
		if err := h.Remove(t.Context(), "cursor", dev.Words); err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
}

// TestEmpty has a file in which nothing is stay there.
func TestEmpty(t *testing.T) {
	for _, client := range []string{"codex", "mistral-vibe", "goose", "continue", "cursor"} {
		h, path := newHome(t, client, []byte{})
		if err := errors.Join(h.Add(t.Context(), client, dev), h.Remove(t.Context(), client, dev.Words)); err != nil {
			t.Errorf("%s: %v", client, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		if err := h.Restore(t.Context(), client, false); err != nil || len(read(t, path)) > 0 {
			t.Errorf("%s: %q, %v", client, read(t, path), err)
		}
	}
}

// TestBegun has a file that says nothing say what the client wants of any.
func TestBegun(t *testing.T) {
	head := "name: Main Config\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: \"dev\"\n"
	for text, want := range map[string]string{"": head, "\n": "\n" + head, "# mine": "# mine\n" + head, "# mine\r\n": "# mine\r\n" + strings.ReplaceAll(head, "\n", "\r\n")} {
		h, path := newHome(t, "continue", []byte(text))
		if err := h.Add(t.Context(), "continue", dev); err != nil || !strings.HasPrefix(string(read(t, path)), want) {
			t.Errorf("%q: %q, %v", text, read(t, path), err)
		}
	}
}

// TestOlder has no file made by which the client would no longer read its older one.
func TestOlder(t *testing.T) {
	h, path := newHome(t, "continue", nil)
	older := filepath.Join(h.Dir, ".continue/config.json")
	os.WriteFile(older, []byte("{}"), 0o600)
	if err := h.Add(t.Context(), "continue", dev); !errors.Is(err, fs.ErrUnsupported) || !strings.Contains(err.Error(), "continue reads ~/.continue/config.json") {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the file is there")
	}
	os.Remove(older)
	if err := h.Add(t.Context(), "continue", dev); err != nil {
		t.Error(err)
	}
	os.WriteFile(older, []byte("{}"), 0o600)
	if err := h.Add(t.Context(), "continue", Server{"hutch", []string{"mcp"}}); err != nil {
		t.Error(err)
	}
}

// TestOthersStay has every word of a sample stand in what comes of it, in its order.
func TestOthersStay(t *testing.T) {
	words := func(file string) []string {
		return strings.FieldsFunc(string(read(t, filepath.Join("testdata", file))), func(r rune) bool { return strings.ContainsRune(" \t\r\n{},", r) })
	}
	for _, c := range table {
		after := words(c.Name + ".after")
		for _, word := range words(c.Name + ".before") {
			i := slices.Index(after, word)
			if i < 0 {
				t.Errorf("%s lost %q", c.Name, word)
				continue
			}
			after = after[i+1:]
		}
	}
}

// TestRefused has files that are not to be touched stay what they are.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, client, text string
		prepare            func(t *testing.T, path string)
		kind               error
		says               string
	}{
		{"not json", "cursor", "{\"mcpServers\": {", nil, fs.ErrInvalid, "~/.cursor/mcp.json is not json"},
		{"a list", "cursor", "[]", nil, fs.ErrInvalid, "no object"},
		{"two", "cursor", "{} {}", nil, fs.ErrInvalid, "is not json"},
		{"no table", "cursor", `{"mcpServers": []}`, nil, fs.ErrInvalid, "mcpServers of ~/.cursor/mcp.json is no table"},
		{"a number", "cursor", `{"mcpServers": 7}`, nil, fs.ErrInvalid, "neither list nor table"},
		{"twice", "cursor", `{"mcpServers": {}, "mcpServers": {}}`, nil, fs.ErrInvalid, "mcpServers is there twice"},
		{"a long name twice", "cursor", `{"mcpServers": {"` + strings.Repeat("\u009b", 1000) + `": 1, "` + strings.Repeat("\u009b", 1000) + `": 2}}`, nil, fs.ErrInvalid, `\u009b…" is there twice`},
		{"two of a long name", "continue", "mcpServers: [{name: " + strings.Repeat("x", 1000) + "}, {name: " + strings.Repeat("x", 1000) + "}]", nil, fs.ErrInvalid, "has two servers"},
		{"deep", "cursor", strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), nil, fs.ErrInvalid, "deeper than 1000"},
		{"deep lists", "cursor", strings.Repeat("[", 1<<20), nil, fs.ErrInvalid, "deeper than 1000"},
		{"not toml", "codex", "a = = b", nil, fs.ErrInvalid, "~/.codex/config.toml is not toml"},
		{"deep toml", "codex", "a = " + strings.Repeat("[", 1<<19), nil, fs.ErrInvalid, "is not toml"},
		{"inline", "codex", `mcp_servers = {a = {command = "b"}}`, nil, fs.ErrUnsupported, "do it by hand"},
		{"not yaml", "goose", "a: [", nil, fs.ErrInvalid, "~/.config/goose/config.yaml is not yaml"},
		{"deep yaml", "goose", "a: " + strings.Repeat("[", 1<<19), nil, fs.ErrInvalid, "is not yaml"},
		{"deep lists of yaml", "goose", "a: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), nil, fs.ErrInvalid, "deeper than 1000"},
		{"a deep key", "codex", strings.Repeat("a.", 1<<18) + "a = 1", nil, fs.ErrInvalid, "deeper than 1000"},
		{"a deep table", "codex", "[" + strings.Repeat("a.", 990) + "a]\nb = {" + strings.Repeat("a.", 20) + "a = 1}", nil, fs.ErrInvalid, "deeper than 1000"},
		{"many values", "cursor", `{"x": [` + strings.Repeat("1,", maxValues) + "1]}", nil, fs.ErrTooLarge, "~/.cursor/mcp.json has more than 200000 values"},
		{"many values of toml", "codex", "x = [" + strings.Repeat("1,", maxValues) + "1]", nil, fs.ErrTooLarge, "has more than 200000 values"},
		{"many values of yaml", "goose", "x: [" + strings.Repeat("1,", maxValues) + "1]", nil, fs.ErrTooLarge, "has more than 200000 values"},
		{"many tables", "codex", strings.Repeat("["+strings.Repeat("a.", 900)+"a]\n", 300), nil, fs.ErrTooLarge, "has more than 200000 values"},
		{"many keys of toml", "codex", strings.ReplaceAll(keys(90_000), ":", "=1"), nil, fs.ErrTooLarge, "10000 keys of TOML"},
		{"many keys of yaml", "goose", keys(maxKeys + 1), nil, fs.ErrTooLarge, "or 2000 in a table of YAML"},
		{"laughs", "goose", laughs(), nil, fs.ErrInvalid, "is not yaml"},
		{"half a second document", "goose", "a: b\n---\nc: [", nil, fs.ErrInvalid, "is not yaml"},
		{"two documents", "goose", "a: b\n---\nc: d\n", nil, fs.ErrInvalid, "several documents"},
		{"yaml in braces", "goose", "{a: b}", nil, fs.ErrUnsupported, "do it by hand"},
		{"long toml", "codex", "# " + strings.Repeat("x", 1<<20), nil, fs.ErrTooLarge, "at most 1048576"},
		{"100 MB", "cursor", "", func(t *testing.T, path string) { os.Truncate(path, 100<<20) }, fs.ErrTooLarge, "has 104857600 bytes: at most 16777216"},
		{"read-only", "cursor", "{}", func(t *testing.T, path string) { os.Chmod(path, 0o444) }, fs.ErrPermission, "read-only"},
		{"another's", "cursor", `{"mcpServers": {"dev": {"command": "x"}}}`, nil, fs.ErrExist, "another server dev"},
		{"another of ours", "cursor", `{"mcpServers": {"dev": {"command": "/x/hutch", "args": ["-s", "unix!/run/hutch/9p", "mcp"]}}}`, nil, fs.ErrExist, "another server dev"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, path := newHome(t, c.client, []byte(c.text))
			if c.prepare != nil {
				c.prepare(t, path)
			}
			err := h.Add(t.Context(), c.client, dev)
			if !errors.Is(err, c.kind) || !strings.Contains(fs.Text(err), c.says) || len(fs.Text(err)) > 500 {
				t.Errorf("%.600v", fs.Text(err))
			}
			if info, _ := os.Stat(path); info.Size() < 100<<20 && string(read(t, path)) != c.text {
				t.Error("the file was touched")
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
			if b, _ := os.ReadDir(h.Backups); len(b) > 0 {
				t.Errorf("a backup of nothing: %v", b)
			}
		})
	}
}

// keys is a table of YAML with n keys.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d:\n", i)
	}
	return b.String()
}

// laughs is YAML that says little and means a lot.
func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		n := string(rune('0' + i))
		b.WriteString("a" + n + ": &a" + n + " [" + strings.TrimSuffix(strings.Repeat("*a"+string(rune('0'+i-1))+", ", 10), ", ") + "]\n")
	}
	return b.String()
}

// TestNotHere has a client that is not there have no file made.
func TestNotHere(t *testing.T) {
	h, path := newHome(t, "kiro", nil)
	os.RemoveAll(filepath.Join(h.Dir, ".kiro"))
	if err := h.Add(t.Context(), "kiro", dev); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if s, err := h.Status(t.Context(), "kiro"); err != nil || s.Here || s.Err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	os.Mkdir(filepath.Join(h.Dir, ".kiro"), 0o755)
	if s, err := h.Status(t.Context(), "kiro"); err != nil || !s.Here || s.Err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if err := h.Remove(t.Context(), "kiro", dev.Words); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("a folder was made to remove something")
	}
	if err := h.Add(t.Context(), "kiro", dev); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := h.Restore(t.Context(), "kiro", false); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file, which was not there, is there")
	}
	if err := h.Add(t.Context(), "nobody", dev); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestAtOnce has many write one file, and none lose what another wrote.
func TestAtOnce(t *testing.T) {
	h, _ := newHome(t, "zed", nil)
	errs := make(chan error)
	const n = 20
	for i := range n {
		go func() {
			errs <- h.Add(context.Background(), "zed", Server{string(rune('a' + i)), []string{"mcp"}})
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if s, err := h.Status(t.Context(), "zed"); err != nil || len(s.Servers) != n {
		t.Errorf("%+v, %v", s, err)
	}
	if err := h.Remove(t.Context(), "zed", []string{"mcp"}); err != nil {
		t.Error(err)
	}
	if s, err := h.Status(t.Context(), "zed"); err != nil || len(s.Servers) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
