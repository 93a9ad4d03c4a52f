package workspace

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// answer is a result as a client decodes it.
type answer struct {
	Content []struct {
		Type, Text string
		Resource   struct{ URI, MIMEType, Blob string }
	}
	StructuredContent struct {
		Size, Offset, Length int64
		Encoding             string
		NextOffset           int64 `json:"next_offset"`
		Entries              []entry
		Incomplete           bool
	}
	IsError bool
}

// Call calls a tool and returns its tools/call result.
func (w *Workspace) Call(ctx context.Context, name string, args json.RawMessage) json.RawMessage {
	c := w.Plan(name, args)
	c.Operation() // as who decides asks for
	r, _ := c.Run(ctx)
	return r
}

func call(t *testing.T, dir, tool, args string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal(New(dir, Snapshots{}).Call(context.Background(), tool, json.RawMessage(args)), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func put(t *testing.T, dir, name, data string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSchemas(t *testing.T) {
	names := []string{}
	for _, tool := range New(t.TempDir(), (&album{}).snapshots()).Tools() {
		var v struct {
			Name        string
			InputSchema struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
				Required   []string
			}
		}
		if err := json.Unmarshal(tool.Raw, &v); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if v.Name != tool.Name || v.InputSchema.Type != "object" || strings.Contains(string(tool.Raw), "\n") {
			t.Errorf("%s: %s", tool.Name, tool.Raw)
		}
		for name, p := range v.InputSchema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s: property %s", tool.Name, name)
			}
		}
		names = append(names, tool.Name)
	}
	if !slices.IsSorted(names) || len(names) != 19 {
		t.Errorf("tools: %v", names)
	}
}

// Tools for what is not there do not exist.
func TestAbsent(t *testing.T) {
	for _, tt := range []struct {
		w    *Workspace
		want int
	}{
		{New(t.TempDir(), Snapshots{}), 14}, {New("", Snapshots{}), 0}, {New("", (&album{}).snapshots()), 0},
	} {
		names := ""
		for _, tool := range tt.w.Tools() {
			names += tool.Name + " "
		}
		if n := len(tt.w.Tools()); n != tt.want || strings.Contains(names, "snapshots_") || tt.w.Has("snapshots_list") || tt.w.Has("file_read") != (n > 0) {
			t.Errorf("tools: %s, want %d", names, tt.want)
		}
		if got := string(tt.w.Call(t.Context(), "snapshots_list", nil)); !strings.Contains(got, `no tool \"snapshots_list\"`) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("snapshots_list: %s", got)
		}
	}
}

func TestReadWrite(t *testing.T) {
	dir := t.TempDir()
	if a := call(t, dir, "file_write", `{"path":"/workspace/a/b.txt","content":"héllo"}`); a.IsError {
		t.Fatal(a)
	}
	if a := call(t, dir, "file_write", `{"path":"a/b.txt","content":" more","mode":"append"}`); a.IsError || a.StructuredContent.Size != 11 {
		t.Fatal(a)
	}
	a := call(t, dir, "file_read", `{"path":"a/b.txt"}`)
	if a.IsError || a.Content[0].Text != "héllo more" || a.StructuredContent.NextOffset != 0 {
		t.Errorf("read %+v", a)
	}
	a = call(t, dir, "file_read", `{"path":"./a//b.txt","limit":2}`)
	if a.Content[0].Text != "h" || a.StructuredContent.NextOffset != 1 || len(a.Content) != 2 {
		t.Errorf("cut inside a rune: %+v", a)
	}
	a = call(t, dir, "file_read", `{"path":"a/b.txt","offset":100}`)
	if a.IsError || a.Content[0].Text != "" {
		t.Errorf("beyond the end: %+v", a)
	}
	bin := base64.StdEncoding.EncodeToString([]byte("\x00\xff\xfe"))
	call(t, dir, "file_write", `{"path":"bin.png","encoding":"base64","content":"`+bin+`"}`)
	a = call(t, dir, "file_read", `{"path":"bin.png"}`)
	if r := a.Content[0].Resource; r.Blob != bin || r.MIMEType != "image/png" || r.URI != "file:///workspace/bin.png" {
		t.Errorf("binary: %+v", a)
	}
	a = call(t, dir, "file_delete", `{"path":"bin.png"}`)
	if _, err := os.Stat(filepath.Join(dir, "bin.png")); a.IsError || err == nil {
		t.Errorf("delete: %+v, %v", a, err)
	}
}

func TestLists(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.go", "b.txt", "d/c.go", "d/e/f.go"} {
		put(t, dir, name, name)
	}
	os.Symlink("a.go", filepath.Join(dir, "link"))
	for _, tt := range []struct{ tool, args, want string }{
		{"dir_list", `{}`, "a.go b.txt d link"},
		{"dir_list", `{"recursive":true}`, "a.go b.txt d d/c.go d/e d/e/f.go link"},
		{"dir_list", `{"path":"/workspace/d"}`, "d/c.go d/e"},
		{"file_list", ``, "a.go b.txt d/c.go d/e/f.go"},
		{"file_list", `{"recursive":false}`, "a.go b.txt"},
		{"file_list", `{"pattern":"*.go"}`, "a.go d/c.go d/e/f.go"},
		{"file_list", `{"path":"d","pattern":"e/*.go"}`, "d/e/f.go"},
		{"file_list", `{"limit":2}`, "a.go b.txt"},
		{"file_list", `{"limit":2,"offset":2}`, "d/c.go d/e/f.go"},
		{"file_list", `{"offset":9}`, ""},
	} {
		a := call(t, dir, tt.tool, tt.args)
		var names []string
		for _, e := range a.StructuredContent.Entries {
			names = append(names, e.Path)
		}
		if got := strings.Join(names, " "); a.IsError || got != tt.want {
			t.Errorf("%s %s: %s, want %s (%+v)", tt.tool, tt.args, got, tt.want, a.Content)
		}
	}
	if a := call(t, dir, "file_list", `{"limit":2}`); a.StructuredContent.NextOffset != 2 || !strings.Contains(a.Content[0].Text, "offset 2") {
		t.Errorf("first page: %+v", a)
	}
}

// TestListsDeep lists folders that lie deeper than any path leads.
func TestListsDeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	deep := strings.Repeat(strings.Repeat("d", 249)+"/", 40)
	if err := root.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	a := call(t, dir, "dir_list", `{"recursive":true}`)
	if n := len(a.StructuredContent.Entries); a.IsError || n != 17 || !a.StructuredContent.Incomplete {
		t.Errorf("%d are listed, incomplete %v", n, a.StructuredContent.Incomplete)
	}
	if a := call(t, dir, "dir_list", `{"path":"`+deep+`"}`); !a.IsError || !strings.Contains(a.Content[0].Text, "too long") {
		t.Errorf("the deepest: %+v", a)
	}
	list := func(read int) (*listing, error) {
		l := &listing{place: place{root: root, admits: func(string) bool { return true }}, read: read, args: listArgs{target: target{Path: "."}, Recursive: true}, want: func(string, fs.DirEntry) bool { return true }}
		_, err := l.run(t.Context())
		return l, err
	}
	if l, err := list(visitMax - 3); len(l.Entries) != 3 || !l.Incomplete || err != nil {
		t.Errorf("of three more %d are listed, incomplete %v, %v", len(l.Entries), l.Incomplete, err)
	}
}

// Everything here is refused, with a text that says why, and changes nothing
// outside the workspace.
func TestRefused(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "secret", "secret")
	dir := t.TempDir()
	put(t, dir, "f", "text")
	os.Symlink(outside, filepath.Join(dir, "out"))
	os.Symlink("../../../../../../etc", filepath.Join(dir, "up"))
	os.Symlink(filepath.Join(outside, "new"), filepath.Join(dir, "dangling"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"file_read", `{"path":"/etc/passwd"}`, "outside"},
		{"file_read", `{"path":"/workspacex/f"}`, "outside"},
		{"file_read", `{"path":"../secret"}`, `".."`},
		{"file_read", `{"path":"/workspace/../etc/passwd"}`, `".."`},
		{"file_read", `{"path":"f\u0000"}`, "NUL"},
		{"file_read", `{"path":"out/secret"}`, "leads out of"},
		{"file_read", `{"path":"up/passwd"}`, "leads out of"},
		{"file_read", `{"path":"fifo"}`, "fifo"},
		{"file_read", `{"path":"."}`, "dir"},
		{"file_read", `{"path":"nothing"}`, "no such file"},
		{"file_read", `{"path":"f/x"}`, "not a directory"},
		{"file_read", `{}`, "path is missing"},
		{"file_read", `{"path":7}`, `"path"`},
		{"file_read", `{"path":"f","ofset":1}`, "ofset"},
		{"file_read", `{"path":"f","offset":-1}`, "negative"},
		{"file_read", `{"path":"f","limit":0}`, "limit"},
		{"file_read", `{"path":"f","limit":99999999}`, "limit"},
		{"file_read", `{"path":"f","encoding":"latin-1"}`, "latin-1"},
		{"file_read", `[]`, "arguments"},
		{"file_write", `{"path":"out/secret","content":"x"}`, "leads out of"},
		{"file_write", `{"path":"out/new/deep","content":"x"}`, "leads out of"},
		{"file_write", `{"path":"dangling","content":"x"}`, "leads out of"},
		{"file_write", `{"path":"fifo","content":"x"}`, "fifo"},
		{"file_write", `{"path":"f","content":"x","mode":"create"}`, "exists"},
		{"file_write", `{"path":"f","content":"x","mode":"sideways"}`, "sideways"},
		{"file_write", `{"path":"f","content":"*","encoding":"base64"}`, "base64"},
		{"file_write", `{"path":"f"}`, "content is missing"},
		{"file_write", `{"path":"f/g","content":"x"}`, "f"},
		{"file_write", `{"path":"no/g","content":"x","parents":false}`, "no such file"},
		{"file_write", `{"path":".","content":"x"}`, "directory"},
		{"file_delete", `{"path":"out/secret"}`, "leads out of"},
		{"file_delete", `{"path":"."}`, "directory"},
		{"file_list", `{"path":"out"}`, "leads out of"},
		{"file_list", `{"path":"f"}`, "not a directory"},
		{"file_list", `{"pattern":"["}`, "pattern"},
		{"dir_list", `{"pattern":"x"}`, "pattern"},
		{"dir_create", `{"path":"out/new"}`, "leads out of"},
		{"dir_create", `{"path":"f"}`, "exist"},
		{"dir_create", `{"path":"a/b","parents":false}`, "no such file"},
		{"file_eat", `{}`, "no tool"},
	} {
		a := call(t, dir, tt.tool, tt.args)
		if !a.IsError || !strings.Contains(a.Content[0].Text, tt.want) {
			t.Errorf("%s %s: %+v, want an error with %q", tt.tool, tt.args, a.Content, tt.want)
		}
	}
	entries, _ := os.ReadDir(outside)
	if data, _ := os.ReadFile(filepath.Join(outside, "secret")); string(data) != "secret" || len(entries) != 1 {
		t.Error("the folder outside changed")
	}
}

func FuzzClean(f *testing.F) {
	for _, p := range []string{"a/b", "/workspace/x", "..", "a/../b", "/workspace/../x", "", "./"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if got, err := clean(p); err == nil && !filepath.IsLocal(got) {
			t.Errorf("clean(%q) = %q", p, got)
		}
	})
}
