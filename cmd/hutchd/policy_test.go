//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ofCommands is a profile that lets a guest run two commands by cmd.run.
const ofCommands = `[cmd]
enabled = true
[cmd.allow]
printf = []
cat = ["/workspace"]
[security.rules.mcp.hidden]
on = "mcp.request"
if = 'mcp.request.tool_name == "fs.read" && mcp.request.arguments.path.startsWith("hidden/")'
decision = "block"
`

// TestRelayRuns has a program in the guest run commands by cmd.run, with the
// relay's client, on each driver that is here.
func TestRelayRuns(t *testing.T) {
	t.Parallel()
	for driver, serves := range map[string]func(*testing.T) *service{
		"gvisor": func(t *testing.T) *service { return serve(t, false) },
		"qemu":   serveQEMU,
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			s := serves(t)
			s.write("profiles/runs.toml", ofCommands)
			s.mkdir("vm/dev")
			s.write("vm/dev/config", "profile runs\n")
			s.write("vm/dev/ctl", "start\n")
			for _, c := range []struct{ args, want string }{
				{`{"command":"printf","args":["%s|","a b","$HOME","*"]}`, `"exit_code":0,"stdout":"a b|$HOME|*|"`},
				{`{"command":"cat","args":["/workspace/none"]}`, `"exit_code":1,"stdout":""`},
				{`{"command":"cat","args":["/etc/passwd"]}`, "blocked by policy: cmd.allow"},
				{`{"command":"cat","args":["/workspace/../etc/passwd"]}`, "blocked by policy: "},
				{`{"command":"sh","args":["-c","id"]}`, "among those that may run (policy_feedback: 2004 COMMAND_NOT_ALLOWED)"},
			} {
				out, status := s.sh("dev", "hutch-relay call -json cmd.run '"+c.args+"' 2>&1")
				if !strings.Contains(out, c.want) {
					t.Errorf("%s: status %s: %s", c.args, status, out)
				}
			}
			if log := rows(s.read("vm/dev/log/exec")); strings.Count(log, `"source":"cmd.run"`) != 2 {
				t.Errorf("log/exec: %s", log)
			}
		})
	}
}

// TestPolicyCommand tests the policy of a VM and of a profile by files of events.
func TestPolicyCommand(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/team.toml", ofCommands)
	s.mkdir("vm/dev")
	s.write("vm/dev/config", "profile team\n")
	s.mkdir("vm/free")
	here := t.TempDir()
	good, bad := filepath.Join(here, "good"), filepath.Join(here, "bad")
	const hidden = `{"server":"local","tool":"fs.read","arguments":{"path":"hidden/x"},"expect":"`
	os.WriteFile(good, []byte(hidden+"block\"}\n"), 0o644)
	os.WriteFile(bad, []byte(hidden+"allow\"}\n"), 0o644)
	for _, c := range []struct {
		args []string
		fine bool
		want string
	}{
		{[]string{"-vm", "dev", "test", good}, true, ""},
		{[]string{"-profile", "team", "test", good}, true, ""},
		{[]string{"-vm", "dev", "test", bad}, false, "got block by security.rules.mcp.hidden, want allow"},
		{[]string{"-profile", "team", "test", bad}, false, "got block by security.rules.mcp.hidden, want allow"},
		{[]string{"-vm", "free", "test", good}, false, "got allow by default, want block"},
		{[]string{"-vm", "none", "test", good}, false, `no vm "none"`},
		{[]string{"-profile", "none", "test", good}, false, `profile "none"`},
		{[]string{"-vm", "dev", "-profile", "team", "test", good}, false, "usage: hutch policy"},
		{[]string{"test", good}, false, "usage: hutch policy"},
	} {
		out, err := s.command("hutch", append([]string{"policy"}, c.args...)...).CombinedOutput()
		if (err == nil) != c.fine || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v: %s, want %q", c.args, err, out, c.want)
		}
	}
	list, err := s.client().ReadDir("vm")
	if err != nil || len(list) != 3 { // clone, and the two
		t.Errorf("vm has %v, %v", list, err)
	}
}
