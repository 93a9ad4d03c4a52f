package hostmcp

import (
	"fmt"
	"strings"
	"testing"
)

// TestLife has sandboxes made, used and removed.
func TestLife(t *testing.T) {
	c := newSite(t).connect()
	if got := c.call("create", args{"name": "dev", "ramMb": 256, "env": args{"GREETING": "good day"}}); got["state"] != "running" || got["persistent"] != true {
		t.Errorf("create: %v", got)
	}
	c.fails("create", args{"name": "dev"}, "file already exists: ")
	c.fails("create", args{"name": "a/b"}, "invalid argument: ")
	c.fails("create", args{"from": "nothing"}, "file does not exist: ")
	c.fails("create", args{"nmae": "x"}, `invalid argument: create takes no "nmae": it takes name? `)
	info := c.call("info", args{"id": "dev"})
	if config := info["config"].(args); config["ram"] != "256MiB" || plain(t, info["env"]) != `["GREETING"]` {
		t.Errorf("info: %v", info)
	}
	if strings.Contains(plain(t, info), "good day") {
		t.Errorf("info has a variable's value: %v", info)
	}
	c.fails("info", args{"id": "none"}, `file does not exist: no vm "none"`)
	c.fails("info", args{}, `invalid argument: info wants "id"`)
	c.fails("info", args{"id": "../dev"}, "invalid argument: ")
	if got := plain(t, c.call("list", nil)); !strings.Contains(got, `"id":"dev"`) {
		t.Errorf("list: %s", got)
	}
	got := c.call("exec", args{"id": "dev", "command": "echo $GREETING; echo no >&2; exit 3"})
	if got["stdout"] != "good day\n" || got["stderr"] != "no\n" || got["exit_code"] != 3.0 {
		t.Errorf("exec: %v", got)
	}
	c.fails("exec", args{"id": "dev", "command": "x", "timeout": "soon"}, `invalid argument: exec: "timeout" is to be a whole number`)
	c.call("fork", args{"id": "dev", "name": "twin", "description": "what\nfor"})
	c.fails("fork", args{"id": "dev", "name": "twin"}, "file already exists: ")
	if got := c.call("create", args{"name": "third", "from": "twin"}); got["state"] != "running" {
		t.Errorf("create from a sandbox: %v", got)
	}
	anonymous := c.call("create", nil)
	if anonymous["persistent"] != false {
		t.Errorf("create without a name: %v", anonymous)
	}
	if got := c.call("persist", args{"id": anonymous["id"], "name": "kept"}); got["id"] != "kept" || got["state"] != "running" {
		t.Errorf("persist: %v", got)
	}
	c.fails("persist", args{"id": "dev", "name": "other"}, "invalid argument: ")
	for _, step := range []struct{ tool, state string }{{"suspend", "suspended"}, {"resume", "running"}, {"stop", "stopped"}, {"resume", "running"}} {
		key := "id"
		if step.tool == "resume" {
			key = "name"
		}
		if got := c.call(step.tool, args{key: "dev"}); got["state"] != step.state {
			t.Errorf("%s: %v", step.tool, got)
		}
		c.fails(step.tool, args{key: "none"}, "file does not exist: ")
	}
	again := c.call("create", nil)
	if got := c.call("stop", args{"id": again["id"]}); got["state"] != "gone" {
		t.Errorf("stop without a name: %v", got)
	}
	c.call("create", nil)
	if got := c.call("purge", nil); len(got["deleted"].([]any)) != 1 {
		t.Errorf("purge: %v", got)
	}
	c.call("delete", args{"id": "dev"})
	c.fails("delete", args{"id": "dev"}, `file does not exist: no vm "dev"`)
	if got := c.call("purge", args{"all": true}); len(got["deleted"].([]any)) != 3 {
		t.Errorf("purge all: %v", got)
	}
	if got := c.call("run", args{"command": "echo once", "env": args{"A": "b"}}); got["stdout"] != "once\n" {
		t.Errorf("run: %v", got)
	}
	c.fails("run", args{"command": "true", "image": "nothing"}, "file does not exist: ")
	if got := c.call("version", nil); got["connected"] != true || got["version"] != "test" {
		t.Errorf("version: %v", got)
	}
}

// TestFiles reads and writes files of a sandbox.
func TestFiles(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev"})
	read := func(a args) map[string]any {
		a["id"] = "dev"
		return c.call("read_file", a)
	}
	write := func(a args) {
		a["id"] = "dev"
		c.call("write_file", a)
	}
	write(args{"path": "a/b/c.txt", "content": "héllo\n"})
	write(args{"path": "/workspace/a/b/c.txt", "content": "wörld\n", "append": true})
	if got := read(args{"path": "a/b/c.txt"}); got["content"] != "héllo\nwörld\n" || got["encoding"] != "utf-8" || got["next_offset"] != nil {
		t.Errorf("read: %v", got)
	}
	if got := read(args{"path": "a/b/c.txt", "offset": 100}); got["content"] != "" || got["size"] != 14.0 {
		t.Errorf("behind its end: %v", got)
	}
	whole := ""
	for off := 0.0; ; { // a part may end within a letter
		got := read(args{"path": "a/b/c.txt", "offset": off, "limit": 2})
		whole += got["content"].(string)
		next, ok := got["next_offset"].(float64)
		if !ok {
			break
		}
		off = next
	}
	if whole != "héllo\nwörld\n" {
		t.Errorf("in parts: %q", whole)
	}
	write(args{"path": "bin", "content": "AP8Q", "encoding": "base64"})
	if got := read(args{"path": "bin"}); got["content"] != "AP8Q" || got["encoding"] != "base64" || got["size"] != 3.0 {
		t.Errorf("binary: %v", got)
	}
	c.fails("read_file", args{"id": "dev", "path": "bin", "encoding": "utf-8"}, `invalid argument: "bin" is not UTF-8`)
	c.fails("write_file", args{"id": "dev", "path": "x", "content": "?", "encoding": "base64"}, "invalid argument: content is not base64")
	for _, up := range []string{"../../../nothing", "..", "a/../../b"} {
		want := fmt.Sprintf("invalid argument: path %q leads out of /workspace", up)
		c.fails("read_file", args{"id": "dev", "path": up}, want)
		c.fails("write_file", args{"id": "dev", "path": up, "content": ""}, want)
	}
	c.fails("read_file", args{"id": "dev", "path": "a"}, "is a directory: ")
	c.fails("write_file", args{"id": "dev", "path": "bin/x", "content": ""}, "not a directory: ")
}

// TestAdvice has errors name tools, and not what one writes to the tree.
func TestAdvice(t *testing.T) {
	c := newSite(t).connect()
	c.call("create", args{"name": "dev", "undo": "execs"})
	c.fails("undo", args{"id": "dev", "undo": "7"}, `file does not exist: nothing to undo has the ID "7": undos lists what has`)
	c.call("exec", args{"id": "dev", "command": "echo 'it''s' >a\ntrue"})
	if got := plain(t, c.call("undos", args{"id": "dev"})); !strings.Contains(got, `\ntrue'"`) {
		t.Error(got)
	}
	c.call("stop", args{"id": "dev"})
	c.fails("exec", args{"id": "dev", "command": "true"}, `file in use: vm "dev" is not running: resume starts it`)
	for _, tool := range []string{"read_file", "write_file"} {
		a := args{"id": "dev", "path": "/etc/passwd"}
		if tool == "write_file" {
			a["content"] = ""
		}
		c.fails(tool, a, `file in use: vm "dev" is not running, and has no files but those of /workspace: resume starts it`)
	}
	c.fails("read_file", args{"id": "dev", "path": "none"}, "file does not exist: none")
}

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\": 1}\n{}\n": "", "[1]\n": `i/o error: line is no JSON object: "[1]"`, "{": "i/o error: lines of JSON: unexpected EOF",
	} {
		if _, err := lines(text); errorText(err) != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
