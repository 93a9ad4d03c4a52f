//go:build linux

package gvisor_test

import (
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestPortsOfUsers has another user than root dial the guest's ports: the
// agent's is root's, MCP's is everybody's.
func TestPortsOfUsers(t *testing.T) {
	g := newBench(t).start("dev")
	dial := func(user, port string) string {
		return g.sh(`python3 -c 'import os,socket,sys;os.setgid(int(sys.argv[1]));os.setuid(int(sys.argv[1]))
s=socket.socket(socket.AF_UNIX);s.connect("/run/hutch/"+sys.argv[2]);print("connected")' ` + user + " " + port + " 2>&1")
	}
	got := dial("1000", "5002")
	if strings.Contains(got, "not found") {
		need.Missing(t, "no python3 to dial with")
	}
	if got != "connected\n" {
		t.Errorf("MCP as a user: %q", got)
	}
	if got := dial("1000", "5000"); !strings.Contains(got, "PermissionError") {
		t.Errorf("the agent's as a user: %q", got)
	}
	if got := dial("0", "5000"); got != "connected\n" {
		t.Errorf("the agent's as root: %q", got)
	}
}
