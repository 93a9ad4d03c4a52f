//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// everythingServer makes a server of servers/ that runs the reference's test
// server in a sandbox. Its package is the one that is installed here: npx finds it above its working folder.
func (s *service) everythingServer(name string) {
	s.t.Helper()
	_, program := need.Everything(s.t)
	root, _, _ := strings.Cut(program, "/node_modules/")
	s.mkdir("servers/" + name)
	s.write("servers/"+name+"/config", fmt.Sprintf(
		`{"image":"npx://@modelcontextprotocol/server-everything","env_vars":{"MARK":"told"},"volumes":["%s/node_modules:/node_modules:ro"]}`, root))
	s.write("servers/"+name+"/ctl", "start\n")
}

// sumBy calls a tool of a server by its own name.
func (s *service) sumBy(server string) {
	s.t.Helper()
	text := s.use("servers/"+server+"/tools/get-sum", `{"a":2,"b":3}`)
	if !strings.Contains(text, "5") {
		s.t.Errorf("the sum is %s", text)
	}
}

// TestServer has a server be used, killed, and be there again with hutchd.
func TestServer(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.everythingServer("all")
	s.sumBy("all")
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "vm server-all\n") {
		t.Errorf("the status is %s", text)
	}
	if text := s.read("servers/all/log/audit"); !strings.Contains(text, `"tool_name":"get-sum"`) {
		t.Errorf("the calls are %s", text)
	}
	s.write("vm/server-all/ctl", "kill\n") // which the next call mends
	s.sumBy("all")
	s.signal(syscall.SIGKILL)
	s.start()
	poll(t, "the server to run", func() bool { return strings.HasPrefix(s.read("servers/all/status"), "running\n") })
	s.sumBy("all")
	s.write("servers/all/ctl", "stop\n")
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "stopped\n") {
		t.Errorf("the status is %s", text)
	}
	s.write("servers/all/ctl", "restart\n")
	s.sumBy("all")
	if err := s.client().Remove("servers/all"); err != nil {
		t.Fatal(err)
	}
	if text := s.read("status"); text != "" {
		t.Errorf("there are VMs left: %s", text)
	}
}
