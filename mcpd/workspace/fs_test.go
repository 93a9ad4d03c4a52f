package workspace

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/mcpd/dotdot"
)

// do calls a tool and returns its structured content and its text.
func do(t *testing.T, dir, tool, args string) (structured, text string, isError bool) {
	t.Helper()
	var r struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(New(dir, Snapshots{}).Call(t.Context(), tool, json.RawMessage(args)), &r); err != nil {
		t.Fatal(err)
	}
	return string(r.StructuredContent), r.Content[0].Text, r.IsError
}

func TestFS(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("x", 600)
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, grepFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"fs.write", `{"path":"/workspace/a/b.txt","content":"one two\ntwo héllo\n"}`, `{"success":true,"bytes_written":19}`},
		{"fs.create", `{"path":"a/empty"}`, `{"success":true,"bytes_written":0}`},
		{"fs.create", `{"path":"./a//c.go","content":"cGFja2FnZQ==","encoding":"base64"}`, `{"success":true,"bytes_written":7}`},
		{"fs.write", `{"path":"/workspace//long","content":"` + big + `"}`, `{"success":true,"bytes_written":600}`},
		{"fs.read", `{"path":"a/b.txt"}`, `{"success":true,"path":"a/b.txt","size":19,"offset":0,"length":19,"encoding":"utf-8","content":"one two\ntwo héllo\n"}`},
		{"fs.read", `{"path":"a/b.txt","offset":4,"limit":3}`, `{"success":true,"path":"a/b.txt","size":19,"offset":4,"length":3,"encoding":"utf-8","content":"two","next_offset":7}`},
		{"fs.edit", `{"path":"a/b.txt","old":"one","new":"three"}`, `{"success":true,"bytes_written":21,"replacements":1}`},
		{"fs.edit", `{"path":"a/b.txt","old":"two","new":"2","all":true}`, `{"success":true,"bytes_written":17,"replacements":2}`},
		{"fs.edit", `{"path":"a/b.txt","old":"three "}`, `{"success":true,"bytes_written":11,"replacements":1}`},
		{"fs.glob", `{"pattern":"**/*.go"}`, `{"success":true,"paths":["a/c.go"],"truncated":false}`},
		{"fs.glob", `{"pattern":"/workspace/**"}`, `{"success":true,"paths":["a/b.txt","a/c.go","a/empty","large","long"],"truncated":false}`},
		{"fs.glob", `{"pattern":"*","path":"a","limit":1}`, `{"success":true,"paths":["a/b.txt"],"truncated":true}`},
		{"fs.grep", `{"pattern":"H.llo|PACK","ignore_case":true}`, `{"success":true,"matches":[{"path":"a/b.txt","line":2,"text":"2 héllo"},{"path":"a/c.go","line":1,"text":"package"}],"files_searched":4,"truncated":false,"too_large":1}`},
		{"fs.grep", `{"pattern":"^","glob":"**/*.txt","limit":1}`, `{"success":true,"matches":[{"path":"a/b.txt","line":1,"text":"2"}],"files_searched":1,"truncated":true}`},
		{"fs.grep", `{"pattern":"x+","path":"long"}`, `{"success":true,"matches":[{"path":"long","line":1,"text":"` + big[:500] + `…"}],"files_searched":1,"truncated":false}`},
		{"fs.grep", `{"pattern":"x","path":"large"}`, `{"success":true,"matches":[],"files_searched":0,"truncated":false,"too_large":1}`},
		{"fs.delete", `{"path":"a/empty"}`, `{"success":true}`},
	} {
		got, text, isError := do(t, dir, tt.tool, tt.args)
		if isError || got != tt.want {
			t.Errorf("%s %s\n got %s (%s)\nwant %s", tt.tool, tt.args, got, text, tt.want)
		}
	}
	if got, _, _ := do(t, dir, "fs.list", `{"path":"/workspace/a"}`); !strings.Contains(got, `{"success":true,"entries":[{"path":"b.txt","type":"file","size":11,`) || strings.Contains(got, "empty") {
		t.Errorf("fs.list: %s", got)
	}
	if got, text, _ := do(t, dir, "fs.list", `{"limit":1}`); !strings.Contains(got, `"next_offset":1`) || !strings.HasPrefix(text, "dir ") {
		t.Errorf("fs.list: %s, %s", got, text)
	}
}

// No path leads out of the workspace, and what could is refused by its name,
// before anything is looked at.
func TestTraversal(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a/f", "text")
	w := New(dir, Snapshots{})
	for _, p := range []string{
		"..", "../f", "a/../f", "a/..", "/workspace/..", "/workspace/../etc/passwd", "/..", "a/./../../f", "..//f",
		`..\f`, `a\..\..\f`, `a/..\f`,
		"%2e%2e/f", "%2E%2e%2ff", "a/%2e./f", ".%2e/f", "..%2ff", "..%5cf", `%2e%2e\f`,
		"%252e%252e/f", "%25252e%25252e%25252ff", "%2%65%2e/f", "%%32%65%2e/f",
		"\uff0e\uff0e/f", "a\uff0f..\uff0ff", "\u2025/f", "\u2024\u2024/f", "..\uff3cf", "%EF%BC%8E%EF%BC%8E/f",
		"%c0%ae%c0%ae/f", "%c0%ae.%c0%aff", "%e0%80%ae%e0%80%ae/f", "..%c1%9cf",
		".. /f", "..%20/f", "..\x00/f", "..%00/f",
		"%" + strings.Repeat("25", 40) + "2e",
		strings.Repeat("a/", 3000) + "..",
	} {
		args, _ := json.Marshal(map[string]string{"path": p})
		for _, tool := range []string{"fs.read", "fs.write", "fs.create", "fs.delete", "fs.list"} {
			c := w.Plan(tool, args)
			if c.Traversal() == nil || !strings.Contains(c.Traversal().Error(), `".." is not allowed`) {
				t.Errorf("%s %q: %v", tool, p, c.err)
			}
		}
		args, _ = json.Marshal(map[string]string{"pattern": p})
		if c := w.Plan("fs.glob", args); c.Traversal() == nil {
			t.Errorf("fs.glob %q: %v", p, c.err)
		}
		args, _ = json.Marshal(map[string]string{"pattern": "x", "glob": p})
		if c := w.Plan("fs.grep", args); c.Traversal() == nil {
			t.Errorf("fs.grep %q: %v", p, c.err)
		}
	}
	// These are names like others.
	for _, p := range []string{"...", "a/...", "..a", "a..", "a/..b/c", "100%", "%", "%2", "%zz", "a%20b", `a\b`, ". .", "…", "%41"} {
		args, _ := json.Marshal(map[string]string{"path": p, "content": "x"})
		if got := string(w.Call(context.Background(), "fs.write", args)); strings.Contains(got, `"isError":true`) {
			t.Errorf("%q: %s", p, got)
		}
		if _, err := os.Stat(filepath.Join(dir, p)); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
}

func TestFSRefused(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "secret", "secret")
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "f", "text text")
	put(t, dir, "d/f", "\x00")
	os.Symlink(outside, filepath.Join(dir, "out"))
	os.Symlink("d", filepath.Join(dir, "linked"))
	os.Symlink(filepath.Join(outside, "new"), filepath.Join(dir, "dangling"))
	for _, tt := range []struct{ tool, args, want string }{
		{"fs.read", `{"path":"/etc/passwd"}`, "outside"},
		{"fs.read", `{"path":"/workspacex/f"}`, "outside"},
		{"fs.read", `{"path":"f\u0000"}`, "NUL"},
		{"fs.read", `{"path":"` + strings.Repeat("a", 5000) + `"}`, "5000 bytes"},
		{"fs.read", `{"path":"` + strings.Repeat("a", 300) + `"}`, "too long"},
		{"fs.read", `{"path":"out/secret"}`, "leads out of"},
		{"fs.read", `{"path":"d"}`, "dir"},
		{"fs.read", `{}`, "path is missing"},
		{"fs.read", `{"path":7}`, `"path"`},
		{"fs.read", `{"path":"f","file":"g"}`, "file"},
		{"fs.write", `{"path":"f"}`, "content is missing"},
		{"fs.write", `{"path":"out/secret","content":"x"}`, "leads out of"},
		{"fs.write", `{"path":"dangling","content":"x"}`, "leads out of"},
		{"fs.write", `{"path":"d","content":"x"}`, "directory"},
		{"fs.create", `{"path":"f","content":"x"}`, "exists"},
		{"fs.edit", `{"path":"f","old":"text","new":"x"}`, "2 times"},
		{"fs.edit", `{"path":"f","old":"none","new":"x"}`, "not in it"},
		{"fs.edit", `{"path":"f","new":"x"}`, "old is missing"},
		{"fs.edit", `{"path":"none","old":"a","new":"x"}`, "no such file"},
		{"fs.edit", `{"path":"f","old":"t","new":"` + strings.Repeat("x", 5<<20) + `","all":true}`, "over the limit"},
		{"fs.delete", `{"path":"d"}`, "directory"},
		{"fs.delete", `{"path":"none"}`, "no such file"},
		{"fs.delete", `{"path":"out/secret"}`, "leads out of"},
		{"fs.list", `{"path":"out"}`, "leads out of"},
		{"fs.list", `{"path":"f"}`, "not a directory"},
		{"fs.list", `{"path":"fifo"}`, "not a directory"},
		{"fs.grep", `{"pattern":"((a?){1000}){0,1}b"}`, "too large"},
		{"fs.glob", `{"pattern":"["}`, "syntax"},
		{"fs.glob", `{}`, "pattern is missing"},
		{"fs.grep", `{"pattern":"("}`, "missing closing"},
		{"fs.grep", `{"pattern":"x","path":"linked"}`, "is a symbolic link"},
		{"fs.grep", `{"pattern":"` + strings.Repeat("a", 1001) + `"}`, "1001 bytes"},
		{"fs.grep", `{}`, "pattern is missing"},
		{"fs.grep", `{"pattern":"x","path":"none"}`, "no such file"},
	} {
		if _, text, isError := do(t, dir, tt.tool, tt.args); !isError || !strings.Contains(text, tt.want) {
			t.Errorf("%s %.200s: %.200s, want an error with %q", tt.tool, tt.args, text, tt.want)
		}
	}
	// What leads out is passed over by those that look around, as is no text.
	for _, tt := range []struct{ tool, args, want string }{
		{"fs.glob", `{"pattern":"**/secret"}`, `"paths":[]`},
		{"fs.grep", `{"pattern":"secret|\\x00"}`, `"matches":[]`},
	} {
		if got, _, _ := do(t, dir, tt.tool, tt.args); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s", tt.tool, got)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(outside, "secret")); string(data) != "secret" {
		t.Error("the folder outside changed")
	}
	if data, _ := os.ReadFile(filepath.Join(dir, "f")); string(data) != "text text" {
		t.Errorf("f changed to %.100q", data)
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a", true}, {"*", "a/b", false}, {"**", "a/b/c", true}, {"a/**", "a/b/c", true}, {"a/**", "ab/c", false},
		{"**/c", "c", true}, {"**/c", "a/b/c", true}, {"a/**/c", "a/c", true}, {"a/**/c", "a/b/b/c", true}, {"a/**/c", "a/b/cc", false},
		{"a*", "abc", true}, {"a?c", "abc", true}, {"[a-c]x", "bx", true}, {"/workspace/a", "a", true}, {"**/**/**/x", "y", false},
		{strings.Repeat("**/a/", 50) + "b", strings.Repeat("a/", 500) + "c", false},
	} {
		g, err := parseGlob(tt.pattern)
		if err != nil || g.matches(tt.name) != tt.want {
			t.Errorf("%s %s: not %v, %v", tt.pattern, tt.name, tt.want, err)
		}
	}
}

func FuzzTraversal(f *testing.F) {
	for _, p := range []string{"a/b", "%2e%2e/x", `..\x`, "%25%32%65", "\u2025", "%c0%ae"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		a := target{Path: p, strict: true}
		if a.clean() != nil {
			return
		}
		stages, _ := dotdot.Stages(p)
		for _, p := range stages {
			for _, part := range strings.FieldsFunc(p, func(r rune) bool { return r == '/' || r == '\\' }) {
				if part == ".." {
					t.Fatalf("%s has ..", strconv.Quote(p))
				}
			}
		}
		if !filepath.IsLocal(a.Path) {
			t.Errorf("clean: %q", a.Path)
		}
	})
}
