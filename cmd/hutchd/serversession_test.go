//go:build linux

package main_test

import (
	"os"
	"strings"
	"testing"
)

// TestServerOfVMs has two VMs use one server of servers/, which is stopped and
// started under them.
func TestServerOfVMs(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.imageServer("all")
	s.write("profiles/default.toml", "[mcpServers.x]\nserver = \"all\"\n")
	where := func(vm string) {
		t.Helper()
		wantText(t, s.call(vm, "x__where", "{}"), "/srv 77:78")
	}
	for _, vm := range []string{"one", "two"} {
		s.vm(vm)
		where(vm)
	}
	if text := s.read("servers/all/log/audit"); !strings.Contains(text, `"vm one"`) || !strings.Contains(text, `"vm two"`) {
		t.Errorf("the server's calls are %s", text)
	}
	if text := s.read("vm/one/log/mcp"); !strings.Contains(text, `"x__where"`) {
		t.Errorf("the VM's calls are %s", text)
	}
	if text := s.read("status"); strings.Count(text, "server-") != 1 {
		t.Errorf("the VMs are %s", text)
	}
	s.write("servers/all/ctl", "stop\n")
	for range 2 {
		if why := s.cannotUse("vm/one/mcp/tools/x__where", "{}"); !strings.Contains(why, "server all does not run (stopped): start it, by echo start >servers/all/ctl") {
			t.Errorf("of a server that is stopped the call says %s", why)
		}
	}
	s.write("servers/all/ctl", "start\n")
	where("one")
}

// cannotUse calls the tool of a directory, which has to fail, and returns why.
func (s *service) cannotUse(tool, args string) string {
	s.t.Helper()
	f := s.open(tool+"/call", os.O_RDWR)
	defer f.Close()
	if _, err := f.WriteAt([]byte(args+"\n"), 0); err != nil {
		return s.why()
	}
	if n, err := f.ReadAt(make([]byte, 1<<10), 0); n > 0 || err == nil {
		s.t.Errorf("%s: %d bytes, %v", tool, n, err)
	}
	return s.why()
}

// TestServerOfVMThatIsNot has a VM start whose server is not there yet.
func TestServerOfVMThatIsNot(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", "[mcpServers.x]\nserver = \"all\"\n")
	s.vm("dev")
	poll(t, "the reason", func() bool { return strings.Contains(s.read("vm/dev/mcp/servers"), "file does not exist: server all") })
	s.imageServer("all")
	wantText(t, s.call("dev", "x__where", "{}"), "/srv 77:78")
}
