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

	"hutch/fs/need"
)

// TestProgram runs the program as its parent does: with nothing but its pipes,
// except for a descriptor that the parent left open by mistake.
func TestProgram(t *testing.T) {
	need.Tool(t, "go")
	dir := t.TempDir()
	for _, program := range []string{"hutch/cmd/aggd", "hutch/cmd/locald"} {
		build := exec.Command("go", "build", "-o", dir+"/", program)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
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
	fmt.Fprintln(in, `[{"name":"local","connect_timeout":"1m"}]`)
	fmt.Fprintln(in, `{"id":1,"method":"call_tool","params":{"name":"local__echo","arguments":{"text":"hello"}}}`)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, `{"id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`) {
		t.Errorf("%s %v", line, err)
	}
	if runtime.GOOS == "linux" {
		hardened(t, fmt.Sprintf("/proc/%d", cmd.Process.Pid))
	}
	in.Close()
	if line, err := lines.ReadString('\n'); err == nil {
		t.Errorf("after the end: %s", line)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func hardened(t *testing.T, proc string) {
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
	for _, flag := range []string{"max-request", "max-result", "list-wait", "local"} {
		if !strings.Contains(string(page), `\-`+strings.ReplaceAll(flag, "-", `\-`)) {
			t.Errorf("the manual does not have -%s", flag)
		}
	}
}
