package dispatch

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

var limits = Config{Timeout: Timeout, MaxOutput: MaxOutput}

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
		if _, err := limits.Plan(json.RawMessage(tt.args)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
	for _, tt := range []struct {
		secs string
		want time.Duration
	}{{"5", 5 * time.Second}, {"60", Timeout}, {"9223372036854775807", Timeout}, {"0", Timeout}} {
		if cmd, err := limits.Plan(json.RawMessage(`{"command":"ls","timeout_secs":` + tt.secs + `}`)); err != nil || cmd.Timeout != tt.want || cmd.Dir != Home {
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
		{Ran{Signal: "SIGKILL", Reason: "killed: out of memory (ram 64MiB)"},
			`{"content":[{"type":"text","text":"ended by SIGKILL: killed: out of memory (ram 64MiB)"}],"structuredContent":{"type":"dispatch_result","execution_id":"dev","dispatch_id":"7","exit_code":-1,"stdout":"","stderr":"","duration_ms":0,"truncated":false,"reason":"killed: out of memory (ram 64MiB)"},"isError":true}`},
	} {
		if got := string(Result("dev", cmd, tt.ran)); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
