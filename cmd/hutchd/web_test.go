//go:build linux

package main_test

import (
	"fmt"
	"strings"
	"testing"

	"hutch/fs/need"
)

// TestListening has a server of servers/ be asked over HTTP at its port, be killed, and
// be there again.
func TestListening(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for transport, mode := range map[string]string{"streamable-http": "streamableHttp", "sse": "sse"} {
		s.listeningServer(mode, transport)
		s.sumBy(mode)
		if text := s.read("servers/" + mode + "/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "transport "+transport+"\n") {
			t.Errorf("the status is %s", text)
		}
		s.write("vm/server-"+mode+"/ctl", "kill\n") // which the next call mends
		s.sumBy(mode)
		s.write("servers/"+mode+"/ctl", "restart\n")
		s.sumBy(mode)
		s.write("servers/"+mode+"/ctl", "stop\n")
		if text := s.read("servers/" + mode + "/status"); !strings.HasPrefix(text, "stopped\n") {
			t.Errorf("the status is %s", text)
		}
	}
}

// listeningServer makes a server that runs the reference's test server over HTTP.
func (s *service) listeningServer(mode, transport string) {
	s.t.Helper()
	_, program := need.Everything(s.t)
	root, _, _ := strings.Cut(program, "/node_modules/")
	s.mkdir("servers/" + mode)
	s.write("servers/"+mode+"/config", fmt.Sprintf(`{"image":"npx://@modelcontextprotocol/server-everything","transport":%q,"target_port":8088,`+
		`"cmd_args":[%q],"env_vars":{"PORT":"8088"},"volumes":["%s/node_modules:/node_modules:ro"]}`, transport, mode, root))
	s.write("servers/"+mode+"/ctl", "start\n")
}
