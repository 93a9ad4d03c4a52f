//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// sandboxed writes a profile whose server runs in a sandbox of its own.
func (s *service) sandboxed() {
	s.t.Helper()
	nodejs, program := need.Everything(s.t)
	root, _, _ := strings.Cut(program, "/node_modules/")
	s.write("profiles/default.toml", fmt.Sprintf(
		"[mcpServers.all]\ncommand = %q\nargs = [%q, \"stdio\"]\nenv.MARK = \"told\"\nsandbox = true\nread = [%q]\n", nodejs, program, root))
}

// sum has the sandboxed server work.
func (s *service) sum(vm string) {
	s.t.Helper()
	s.tool(vm, "all__get-sum")
	if text := s.call(vm, "all__get-sum", `{"a":2,"b":3}`); !strings.Contains(text, "5") {
		s.t.Errorf("the sum is %s", text)
	}
}

// TestSandboxed has a VM use a server that runs in a sandbox, which ends when
// hutchd does, however that is, and goes with the VM.
func TestSandboxed(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.sandboxed()
	s.vm("dev")
	s.sum("dev")
	if text := s.call("dev", "all__get-env", `{}`); !strings.Contains(text, "MARK") || !strings.Contains(text, "/workspace") {
		t.Errorf("its environment is %s", text)
	}
	if text := s.read("vm/server-dev-all/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "net none\n") {
		t.Errorf("the sandbox is %s", text)
	}
	s.signal(syscall.SIGKILL)
	s.start()
	s.sum("dev")
	s.signal(syscall.SIGTERM)
	s.start()
	s.sum("dev")
	s.write("vm/dev/ctl", "stop\n")
	s.write("vm/dev/ctl", "start\n")
	s.sum("dev")
	s.write("vm/server-dev-all/ctl", "kill\n") // which the server's next call mends
	s.sum("dev")
	s.write("vm/dev/ctl", "stop\n")
	if err := s.client().Remove("vm/dev"); err != nil {
		t.Fatal(err)
	}
	poll(t, "the sandbox to be gone", func() bool { return s.read("status") == "" })
}
