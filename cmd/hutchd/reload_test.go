//go:build linux

package main_test

import (
	"strings"
	"syscall"
	"testing"
)

// TestReloadSettles lists a server's tools as soon as reload has returned.
func TestReloadSettles(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	s.tool("dev", "local__echo")
	s.write("profiles/default.toml", "[mcpServers.all]\n"+everything(t))
	s.write("ctl", "reload\n")
	tools, servers := s.names("vm/dev/mcp/tools"), s.read("vm/dev/mcp/servers")
	// a machine that is very busy can need more than the 5 s that a reload waits
	if !strings.Contains(tools, "all__get-sum") && !strings.Contains(servers, "all starting") {
		t.Errorf("after a reload there are the tools %s of the servers\n%s", tools, servers)
	}
}

// TestBadProfile breaks the profile of a VM that runs.
func TestBadProfile(t *testing.T) {
	t.Parallel()
	s := serve(t, true)
	s.write("profiles/default.toml", "disk = \"100MiB\"\n")
	s.vm("dev")
	s.mkdir("vm/other")
	s.write("profiles/default.toml", "disk = \"lots\"\n")
	const why = `profile default, line 1`
	for _, again := range []bool{false, true} {
		if again {
			s.signal(syscall.SIGTERM)
			s.start()
		}
		if text := s.read("vm/dev/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, " of 100MiB") {
			t.Errorf("what runs has lost its limit: %s", text)
		}
		for file, message := range map[string]string{"vm/other/ctl": "start\n", "ctl": "reload\n"} {
			if err := s.tryWrite(file, message); err == nil || !strings.Contains(s.read("err"), why) {
				t.Errorf("%s: %v, %s", strings.TrimSpace(message), err, s.read("err"))
			}
		}
	}
	// fsync tells what is wrong with a config
	out, err := s.user("sh", "-c", "echo ram lots | dd conv=fsync,notrunc oflag=append of="+s.path("vm/other/config")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Invalid argument") {
		t.Errorf("fsync of a bad config: %v %s", err, out)
	}
	if text := s.read("vm/other/err"); !strings.Contains(text, `"lots" is not a size`) {
		t.Errorf("err has %q", text)
	}
}
