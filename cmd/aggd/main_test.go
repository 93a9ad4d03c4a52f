package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hutch/aggd/child"
	"hutch/aggd/wire"
	"hutch/fs/need"
)

// TestProgram runs the program as its parent does, with the built-in tools.
func TestProgram(t *testing.T) {
	need.Tool(t, "go")
	dir := t.TempDir()
	for _, program := range []string{"hutch/cmd/aggd", "hutch/cmd/locald"} {
		build := exec.Command("go", "build", "-o", dir+"/", program)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c, err := child.Start(t.Context(), child.Config{Path: filepath.Join(dir, "aggd"), Log: os.Stderr, Up: func() {}, Down: func(err error) { t.Error(err) }, Servers: []wire.Server{{
		Name: wire.Local, Enabled: true, ConnectTimeout: wire.Duration(time.Minute),
		Program: wire.Program{Command: filepath.Join(dir, "locald"), Confined: true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answer, err := c.Call(t.Context(), wire.Call{Server: wire.Local, Method: "tools/call", Params: []byte(`{"name":"echo","arguments":{"text":"hello"}}`)})
	if err != nil || !strings.Contains(string(answer.Result), `{"content":[{"type":"text","text":"hello"}]}`) {
		t.Errorf("%s %s %v", answer.Result, answer.Error, err)
	}
	if runtime.GOOS == "linux" {
		hardened(t, c.PID())
		for _, p := range c.Programs() {
			hardened(t, p.PID)
		}
	}
}

// TestInherited runs the program as somebody else does, who left a descriptor
// open by mistake; and has it end with its input.
func TestInherited(t *testing.T) {
	need.Tool(t, "go")
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir+"/", "hutch/cmd/aggd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secret, err := os.Open("main.go")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	cmd := exec.Command(filepath.Join(dir, "aggd"))
	cmd.Env = []string{}
	cmd.ExtraFiles = []*os.File{secret}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		t.Fatal("cannot start")
	}
	lines := bufio.NewReader(out)
	fmt.Fprintln(in, `[{"name":"s","command":"/bin/true"}]`)
	fmt.Fprintln(in, `{"id":1,"method":"list_servers"}`)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, `"state":"unsupported"`) {
		t.Errorf("%s %v", line, err)
	}
	if runtime.GOOS == "linux" {
		hardened(t, cmd.Process.Pid)
	}
	in.Close()
	if line, err := lines.ReadString('\n'); err == nil {
		t.Errorf("after the end: %s", line)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func hardened(t *testing.T, pid int) {
	proc := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("no_new_privs is not set: %v", err)
	}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(proc + "/fd/" + fd.Name()); strings.HasSuffix(to, "main.go") {
			t.Errorf("descriptor %s leads to %s", fd.Name(), to)
		}
	}
}

func TestUsage(t *testing.T) {
	page, err := os.ReadFile("aggd.8")
	if err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"max-request", "max-result", "list-wait", "programs"} {
		if !strings.Contains(string(page), `\-`+strings.ReplaceAll(flag, "-", `\-`)) {
			t.Errorf("the manual does not have -%s", flag)
		}
	}
}
