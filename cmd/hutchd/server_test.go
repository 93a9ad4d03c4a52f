//go:build linux

package main_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// everythingServer makes a server of servers/ that runs the reference's test
// server in a sandbox.
func (s *service) everythingServer(name string) {
	s.t.Helper()
	need.Everything(s.t)
	s.mkdir("servers/" + name)
	s.write("servers/"+name+"/config", `{"image":"npx://@modelcontextprotocol/server-everything","env_vars":{"MARK":"told"}}`)
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
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "vm server-all\n") || strings.Contains(text, "\ntools 0\n") {
		t.Errorf("the status is %s", text)
	}
	if text := s.read("vm/server-all/status"); !strings.Contains(text, "\nowner servers/all\n") || strings.Contains(text, "\naggregator ") {
		t.Errorf("the sandbox is %s", text)
	}
	if text := s.read("metrics"); !strings.Contains(text, `hutch_servers{state="running"} 1`) {
		t.Errorf("the metrics are %s", text)
	}
	s.write("ctl", "purge all\n") // which is no business of servers
	s.sumBy("all")
	if text := s.read("servers/all/log/audit"); !strings.Contains(text, `"tool_name":"get-sum"`) {
		t.Errorf("the calls are %s", text)
	}
	s.write("vm/server-all/ctl", "kill\n") // which mends itself
	events := s.open("servers/all/events", os.O_RDONLY)
	defer events.Close()
	lines := bufio.NewScanner(events)
	for _, want := range []string{"starting", "running", "unhealthy", "running"} {
		for lines.Scan() && !strings.Contains(lines.Text(), `"event":"`+want+`"`) {
		}
		if lines.Err() != nil {
			t.Fatalf("no event %s: %v", want, lines.Err())
		}
	}
	s.sumBy("all")
	s.signal(syscall.SIGKILL)
	s.start()
	poll(t, "the server to run", func() bool { return strings.HasPrefix(s.read("servers/all/status"), "running\n") })
	s.sumBy("all")
	s.write("servers/all/ctl", "stop\n")
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "stopped\n") {
		t.Errorf("the status is %s", text)
	}
	s.write("servers/all/config", "{") // which does not count
	s.write("servers/all/ctl", "restart\n")
	if err := s.tryWrite("servers/all/ctl", "allow a.example\n"); err == nil || !strings.Contains(s.read("servers/all/err"), "mend it first") {
		t.Errorf("it is allowed more: %v, %s", err, s.read("servers/all/err"))
	}
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "running\n") { // as before
		t.Errorf("the status is %s", text)
	}
	s.sumBy("all")
	if err := s.client().Remove("servers/all"); err != nil {
		t.Fatal(err)
	}
	if text := s.read("status"); text != "" {
		t.Errorf("there are VMs left: %s", text)
	}
}

// TestServerStopped stops a server that says nothing, while it starts.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	need.Everything(t) // and so npx
	s := serve(t, false)
	s.mkdir("servers/mute")
	s.write("servers/mute/config", `{"image":"npx://mute@1.0.0"}`)
	started := make(chan error, 1)
	go func() { started <- s.tryWrite("servers/mute/ctl", "start\n") }()
	poll(t, "the sandbox", func() bool {
		_, err := s.client().Stat("vm/server-mute/root/proc")
		return err == nil
	})
	s.write("servers/mute/ctl", "stop\n")
	if err := <-started; err == nil {
		t.Error("it started")
	}
	if text := s.read("servers/mute/err"); !strings.Contains(text, "it was stopped") {
		t.Errorf("err is %s", text)
	}
	if text := s.read("servers/mute/status"); !strings.HasPrefix(text, "stopped\n") {
		t.Errorf("the status is %s", text)
	}
	if text := s.read("vm/server-mute/status"); strings.HasPrefix(text, "running") {
		t.Errorf("its sandbox is %s", text)
	}
}

// TestServerUnstarted kills hutchd while a server starts: nobody has seen it run, and
// the next hutchd leaves it.
func TestServerUnstarted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := serve(t, false)
	s.mkdir("servers/mute")
	s.write("servers/mute/config", `{"remote_url":"http://`+l.Addr().String()+`/mcp"}`)
	started := make(chan error, 1)
	go func() { started <- s.tryWrite("servers/mute/ctl", "start\n") }()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s.signal(syscall.SIGKILL)
	if err := <-started; err == nil {
		t.Error("it started")
	}
	halves := []string{filepath.Join(s.state(), "servers", "mute", ".new-1"), filepath.Join(s.state(), ".new-1")} // a config, and a number
	for _, half := range halves {
		if err := os.WriteFile(half, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	for _, half := range halves {
		if _, err := os.Stat(half); err == nil {
			t.Errorf("%s is left", half)
		}
	}
	if text := s.read("servers/mute/status"); !strings.HasPrefix(text, "stopped\n") {
		t.Errorf("the status is %s", text)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "state", "servers", "mute", "wanted")); err == nil {
		t.Error("it is to run")
	}
}

// hang has the machine of a VM do nothing any more.
func (s *service) hang(vm string) {
	s.t.Helper()
	var pid int
	for line := range strings.Lines(s.read("vm/" + vm + "/status")) {
		fmt.Sscanf(line, "pid %d", &pid)
	}
	if pid == 0 || syscall.Kill(pid, syscall.SIGSTOP) != nil {
		s.t.Fatalf("the machine of %s is process %d", vm, pid)
	}
}

// TestServerStuck stops a server whose sandbox does nothing any more.
func TestServerStuck(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.imageServer("all")
	s.hang("server-all")
	stopped := make(chan error, 1)
	began := time.Now()
	go func() { stopped <- s.tryWrite("servers/all/ctl", "stop\n") }()
	poll(t, "it to be stopped", func() bool { return strings.HasPrefix(s.read("servers/all/status"), "stopping\n") })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
	if text := s.read("servers/all/status"); !strings.HasPrefix(text, "stopped\n") {
		t.Errorf("the status is %s", text)
	}
}
