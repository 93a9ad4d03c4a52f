package workspace

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResolve: the operation that is decided on is that on the file which the
// tool opens.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "ok", "deep"), 0o755)
	os.Mkdir(filepath.Join(dir, "no"), 0o755)
	os.WriteFile(filepath.Join(dir, "no", "f"), []byte("x"), 0o644)
	for link, to := range map[string]string{
		"ok/up": "..", "ok/f": "../no/f", "ok/new": "../no/new", "ok/two": "up/no", "ok/out": "../../etc", "ok/etc": "/etc",
		"ok/loop": "loop", "ok/deep/back": "../deep/../../no", "ok/dot": "./.",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	w := New(dir, Snapshots{})
	for _, c := range []struct{ tool, path, want string }{
		{"fs.read", "ok/f", "no/f"},
		{"fs.read", "./ok//f", "no/f"},
		{"fs.write", "ok/plain", "ok/plain"},
		{"fs.write", "ok/none/below", "ok/none/below"},
		{"fs.write", "ok/new", "no/new"},
		{"fs.write", "ok/up/esc", "esc"},
		{"fs.create", "ok/two/a/b", "no/a/b"},
		{"file_write", "ok/deep/back/f", "no/f"},
		{"fs.edit", "ok/dot/f", "no/f"},
		{"fs.list", "ok/up", ""},
		{"fs.list", ".", ""},
		{"fs.delete", "ok/f", "ok/f"}, // the link
		{"fs.delete", "ok/up/no/f", "no/f"},
		{"file_delete", "ok/up", "ok/up"},
		{"dir_create", "ok/new", "ok/new"},
		{"fs.read", "ok/loop", "ok/loop"},
	} {
		args := map[string]string{"path": c.path}
		switch c.tool {
		case "fs.write", "fs.create", "file_write":
			args["content"] = "x"
		case "fs.edit":
			args["old"], args["new"] = "x", "y"
		}
		text, _ := json.Marshal(args)
		call := w.Plan(c.tool, text)
		want := strings.TrimSuffix(guestPath+"/"+c.want, "/")
		if op, ok := call.Operation(); !ok || op.Path != want {
			t.Errorf("%s %q: %+v, %t, %v; want %s", c.tool, c.path, op, ok, call.err, want)
		}
	}
	for _, name := range []string{"ok/out/passwd", "ok/etc/passwd", "ok/etc"} {
		call := w.Plan("fs.read", []byte(`{"path":"`+name+`"}`))
		if op, ok := call.Operation(); ok || op.Path != "/workspace/"+name || call.Traversal() == nil {
			t.Errorf("%s: %+v, %v", name, op, call.err)
		}
	}
}

// A path that is made to be long to follow is refused, and not decided about.
func TestWinding(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("a/", 400)
	if err := os.MkdirAll(filepath.Join(dir, deep), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Symlink(strings.Repeat("../", 400)+"f", filepath.Join(dir, deep, "back"))
	os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
	call := New(dir, Snapshots{}).Plan("fs.read", []byte(`{"path":"`+deep+`back"}`))
	if op, ok := call.Operation(); ok {
		t.Errorf("decided as %+v", op)
	}
	if result, _ := call.Run(t.Context()); !strings.Contains(string(result), "leads through more than 256 folders and links") {
		t.Errorf("%s", result)
	}
}
