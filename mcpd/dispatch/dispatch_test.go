package dispatch

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"
)

var listed = Config{Timeout: Timeout, MaxOutput: MaxOutput, Allow: map[string][]string{
	"python": {"/workspace"}, "pytest": {"/workspace/tests/"}, "npm": {"install", "run", "test"}, "ls": {}, "cargo": {"build"}, "find": {"/"},
}}

func TestRefuses(t *testing.T) {
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
		cmd, err := listed.Plan(json.RawMessage(tt.args))
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if got := listed.Refuses(cmd); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.args, got, tt.want)
		}
	}
}

func TestPlan(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`{}`, "command is missing"},
		{`{"command":7}`, `"command" takes no number`},
		{`{"command":"ls","args":"-l"}`, `"args" takes no string`},
		{`{"command":"ls","env":{}}`, "env"},
		{`{"command":"ls\u0000"}`, "NUL"},
		{`{"command":"ls","cwd":"/etc"}`, "outside"},
		{`{"command":"ls","cwd":"../etc"}`, "outside"},
		{`{"command":"ls","cwd":"/workspacex"}`, "outside"},
		{`{"command":"ls","timeout_secs":-1}`, "negative"},
		{`[]`, "arguments: write an object, {…}, not the array that it is"},
		{``, "command is missing"},
	} {
		if _, err := listed.Plan(json.RawMessage(tt.args)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
	for _, tt := range []struct {
		secs string
		want time.Duration
	}{{"5", 5 * time.Second}, {"60", Timeout}, {"9223372036854775807", Timeout}, {"0", Timeout}} {
		if cmd, err := listed.Plan(json.RawMessage(`{"command":"ls","timeout_secs":` + tt.secs + `}`)); err != nil || cmd.Timeout != tt.want || cmd.Dir != Home {
			t.Errorf("%s: %+v, %v", tt.secs, cmd, err)
		}
	}
}

func TestResult(t *testing.T) {
	cmd := Command{ID: "7", Timeout: 2 * time.Second}
	for _, tt := range []struct {
		ran  Ran
		want string
	}{
		{Ran{Stdout: []byte("hi\n"), StdoutBytes: 3, Duration: 12 * time.Millisecond},
			`{"content":[{"type":"text","text":"exit status 0\nhi\n"}],"structuredContent":{"type":"dispatch_result","execution_id":"dev","dispatch_id":"7","exit_code":0,"stdout":"hi\n","stderr":"","duration_ms":12,"truncated":false}}`},
		{Ran{TimedOut: true, Signal: "SIGTERM", Stderr: []byte("x"), StderrBytes: 9},
			`{"content":[{"type":"text","text":"[AEGIS] Command timed out after 2s (only the ends of the output are shown)\nx\n[AEGIS] Command timed out after 2s\n"}],"structuredContent":{"type":"dispatch_result","execution_id":"dev","dispatch_id":"7","exit_code":-1,"stdout":"","stderr":"x\n[AEGIS] Command timed out after 2s\n","duration_ms":0,"truncated":true},"isError":true}`},
	} {
		if got := string(Result("dev", cmd, tt.ran)); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func FuzzRefuses(f *testing.F) {
	f.Add("python", "/workspace/../x")
	f.Fuzz(func(t *testing.T, command, arg string) {
		args, _ := json.Marshal(map[string]any{"command": command, "args": []string{arg}})
		cmd, err := listed.Plan(args)
		if err != nil || listed.Refuses(cmd) != "" {
			return
		}
		if clean := path.Clean(arg); command == "python" && !strings.HasPrefix(arg, "./") && clean != Home && !strings.HasPrefix(clean, Home+"/") {
			t.Errorf("%q %q", command, arg)
		}
	})
}
