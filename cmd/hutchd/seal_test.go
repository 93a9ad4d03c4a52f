//go:build linux

package main_test

import (
	"strings"
	"testing"
)

// TestSealedRequests has programs of a VM whose profile requires signed
// requests call a tool, over the relay's client with and without a key.
func TestSealedRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", "[security.envelope]\nrequired = true\n")
	s.vm("dev")
	s.write("vm/dev/work/a", "hello")
	for line, want := range map[string]string{
		`hutch-relay -seal call file_list '{"path":"."}'`:        "0\n",
		`HUTCH_SEAL=1 hutch-relay call file_list '{"path":"."}'`: "0\n",
		`hutch-relay call file_list '{"path":"."}' 2>&1`:         "1\n",
	} {
		out, status := s.sh("dev", line+"; echo $?")
		if !strings.HasSuffix(out, want) || strings.Contains(out, "security.envelope") != (want == "1\n") {
			t.Errorf("%s: %s %s", line, out, status)
		}
	}
	lines := strings.Split(strings.TrimSpace(s.read("vm/dev/mcp/ctl")), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "attested ") {
		t.Errorf("mcp/ctl has %q", lines)
	}
	s.write("vm/dev/mcp/ctl", "revoke all\n")
	if text := s.read("vm/dev/mcp/ctl"); strings.Contains(text, "attested") {
		t.Errorf("revoked, mcp/ctl has %q", text)
	}
	if out, _ := s.sh("dev", `hutch-relay -seal call file_list '{"path":"."}'`); !strings.Contains(out, "a") {
		t.Errorf("with another key: %s", out)
	}
}

// TestSealedUnderBlock has a VM whose policy blocks what no rule allows: the
// attestation is no call that is decided, so the guest gets its token.
func TestSealedUnderBlock(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", `[security]
default = "block"
[security.envelope]
required = true
[security.rules.mcp.list]
on = "mcp.request"
if = 'mcp.request.tool_name == "file_list"'
decision = "allow"
`)
	s.vm("dev")
	s.write("vm/dev/work/a", "hello")
	if out, status := s.sh("dev", `hutch-relay -seal call file_list '{"path":"."}' 2>&1`); !strings.HasPrefix(out, "file 5 a") {
		t.Errorf("what a rule allows: %s %s", out, status)
	}
	if text := s.read("vm/dev/mcp/ctl"); !strings.Contains(text, "\nattested ") {
		t.Errorf("mcp/ctl has %q", text)
	}
	if out, status := s.sh("dev", `hutch-relay -seal call file_write '{"path":"b","content":""}' 2>&1`); !strings.Contains(out, "default: no rule allows it") {
		t.Errorf("what no rule allows: %s %s", out, status)
	}
}
