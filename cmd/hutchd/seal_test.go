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
