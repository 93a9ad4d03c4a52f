package policy

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
)

func TestRunnable(t *testing.T) {
	listed := map[string][]string{
		"python": {"/workspace"}, "pytest": {"/workspace/tests/"}, "npm": {"install", "run", "test"}, "ls": {}, "cargo": {"build"}, "find": {"/"},
	}
	for _, tt := range []struct{ args, want string }{
		{`{"command":"python","args":["/workspace/solution.py"]}`, ""},
		{`{"command":"python","args":["/workspace"]}`, ""},
		{`{"command":"python","args":["/workspace/a/../b.py","x"]}`, ""},
		{`{"command":"python","args":["./b.py"],"cwd":"src"}`, ""},
		{`{"command":"pytest","args":["/workspace/tests"]}`, ""},
		{`{"command":"npm","args":["run","evil; x"]}`, ""},
		{`{"command":"ls"}`, ""},
		{`{"command":"ls","args":["-l","/"]}`, ""},
		{`{"command":"find","args":["/etc"]}`, ""},
		{`{"command":"python"}`, "needs a first argument"},
		{`{"command":"python","args":["/workspace/../etc/x.py"]}`, "first argument"},
		{`{"command":"python","args":["/workspacex/y.py"]}`, "first argument"},
		{`{"command":"python","args":["./../../etc/x.py"]}`, "first argument"},
		{`{"command":"python","args":["-c","import os"]}`, "first argument"},
		{`{"command":"python","args":["-m","/workspace"]}`, "first argument"},
		{`{"command":"python","args":["b.py"]}`, "first argument"},
		{`{"command":"python","args":[""]}`, "first argument"},
		{`{"command":"pytest","args":["/workspace/testsx"]}`, "first argument"},
		{`{"command":"npm","args":["runx"]}`, "first argument"},
		{`{"command":"npm","args":["run test"]}`, "first argument"},
		{`{"command":"npm run","args":["test"]}`, "not among"},
		{`{"command":"cargo build ; curl","args":["evil"]}`, "not among"},
		{`{"command":"cargo","args":["build ; curl evil"]}`, "first argument"},
		{`{"command":"/usr/bin/python","args":["/workspace/x.py"]}`, "not among"},
		{`{"command":"Python","args":["/workspace/x.py"]}`, "not among"},
		{`{"command":"sh","args":["-c","ls"]}`, "not among"},
	} {
		var says struct {
			Command string
			Args    []string
			Cwd     string
		}
		if err := json.Unmarshal([]byte(tt.args), &says); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{Enforce, Observe} {
			p := compiled(t, Config{Mode: mode, Commands: listed})
			d := p.Decide(&Event{On: OnExec, Command: says.Command, Words: says.Args, Dir: path.Join("/workspace", says.Cwd)})
			if (d.Action == Allow) != (tt.want == "") || !strings.Contains(d.Reason, tt.want) || d.Action != Allow && d.Rule != RuleCommands {
				t.Errorf("%s: %+v, want %q", tt.args, d, tt.want)
			}
		}
	}
	if d := compiled(t, Config{}).Decide(&Event{On: OnExec, Command: "rm"}); d.Action != Allow {
		t.Errorf("no list: %+v", d)
	}
	if d := compiled(t, Config{Commands: map[string][]string{}}).Decide(&Event{On: OnExec, Command: "rm"}); d.Action != Block {
		t.Errorf("an empty list: %+v", d)
	}
}

func FuzzRunnable(f *testing.F) {
	f.Add("python", "/workspace/../x")
	f.Fuzz(func(t *testing.T, command, arg string) {
		p, err := New(Config{Commands: map[string][]string{"python": {"/workspace"}, "npm": {"run"}}})
		if err != nil {
			t.Fatal(err)
		}
		if d := p.Decide(&Event{On: OnExec, Command: command, Words: []string{arg}, Dir: "/workspace"}); d.Action != Allow {
			return
		}
		clean := path.Clean(arg)
		if strings.HasPrefix(arg, "./") {
			clean = path.Join("/workspace", arg)
		}
		if command == "python" && clean != "/workspace" && !strings.HasPrefix(clean, "/workspace/") || command == "npm" && arg != "run" {
			t.Errorf("%q %q", command, arg)
		}
	})
}
