package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// claude writes a configuration file of Claude Desktop's shape.
func claude(t *testing.T, servers map[string]any) (path string) {
	text, err := json.MarshalIndent(map[string]any{"globalShortcut": "", "mcpServers": servers}, "", "  ")
	path = filepath.Join(t.TempDir(), "claude_desktop_config.json")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSDK has the SDK's client, as it runs in Claude Desktop, start what a
// configuration file of that names, which has the reference server twice.
func TestSDK(t *testing.T) {
	nodejs, everything := need.Everything(t)
	aggd := build(t)
	entry := map[string]any{"command": nodejs, "args": []string{"${SERVER}"}}
	inner := claude(t, map[string]any{"fs-home": entry, "my server é": entry, "broken": map[string]any{"command": "/no/such"}})
	for _, all := range []bool{false, true} {
		args := []string{"-serve", inner}
		if all {
			args = append(args, "-all")
		}
		outer := claude(t, map[string]any{"both": map[string]any{"command": aggd, "args": args, "env": map[string]string{"SERVER": everything}}})
		cmd := exec.Command(nodejs, script(t, everything), outer)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, &said)
		}
		want := plainTalk
		if all {
			want = wholeTalk
		}
		if string(out) != want {
			t.Errorf("all %v:\n%s\nwant\n%s", all, out, want)
		}
	}
}

// script puts the client where it finds the SDK.
func script(t *testing.T, everything string) (path string) {
	dir := t.TempDir()
	modules, _, _ := strings.Cut(everything, "/@modelcontextprotocol/")
	text, err := os.ReadFile("testdata/client.mjs")
	if err == nil {
		err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
	}
	path = filepath.Join(dir, "client.mjs")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	plainTalk = `capabilities {"tools":{}}
servers fs-home, my server é
echo {"content":[{"type":"text","text":"Echo: hello"}]}
sum The sum of 2 and 40 is 42.
progress 1/2
invalid:tool -32601 MCP error -32601: Tool not found: invalid:tool
tool -32602 MCP error -32602: Tool name must be prefixed with server key: tool
broken:x -32603
cancelled -32001
parallel 20
resources -32601
`
	wholeTalk = `capabilities {"logging":{},"completions":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}
servers fs-home, my server é
echo {"content":[{"type":"text","text":"Echo: hello"}]}
sum The sum of 2 and 40 is 42.
progress 1/2
invalid:tool -32601 MCP error -32601: Tool not found: invalid:tool
tool -32602 MCP error -32602: Tool name must be prefixed with server key: tool
broken:x -32603
cancelled -32001
parallel 20
resources fs-home, my server é
prompts fs-home, my server é
`
)

// build builds the program, once for all tests.
func build(t *testing.T) (path string) {
	need.Tool(t, "go")
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(bin, "aggd")
	if out, err := exec.Command("go", "build", "-o", path, "hutch/cmd/aggd").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// bin is where programs are built.
var bin string

func TestMain(m *testing.M) {
	var err error
	if bin, err = os.MkdirTemp("", "aggd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(bin)
	os.Exit(code)
}

// TestServe runs the program over a server that goes on after the end of its input
// and after SIGTERM, with a child of its own; and ends it in each way.
func TestServe(t *testing.T) {
	need.Tool(t, "sh")
	aggd := build(t)
	dir := t.TempDir()
	file := claude(t, map[string]any{"k": map[string]any{"command": "sh", "args": []string{"-c", `trap '' TERM; sleep 1000 & echo $$ $! >"` + dir + `/pids.tmp"; mv "` + dir + `/pids.tmp" "` + dir + `/pids"; while :; do sleep 1000; done`}}})
	for _, way := range []string{"eof", "term", "hangup"} {
		os.Remove(dir + "/pids")
		cmd := exec.Command(aggd, "-serve", file)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if err1 != nil || err2 != nil || cmd.Start() != nil {
			t.Fatal("cannot start")
		}
		fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if line, err := bufio.NewReader(out).ReadString('\n'); line != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
			t.Fatal(line, err)
		}
		pids := await(t, dir+"/pids")
		began := time.Now()
		switch way {
		case "eof":
			in.Close()
		case "term":
			cmd.Process.Signal(syscall.SIGTERM)
		case "hangup": // the client reads no more, and so is gone
			out.Close()
			fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		}
		err := cmd.Wait()
		if d := time.Since(began); err != nil || d > 2*time.Second {
			t.Errorf("%s: %v after %v", way, err, d)
		}
		for _, pid := range pids {
			if syscall.Kill(pid, 0) == nil && !zombie(pid) {
				t.Errorf("%s: process %d is left", way, pid)
			}
		}
	}
}

// await waits for the numbers that a program writes to a file.
func await(t *testing.T, path string) (pids []int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if text, err := os.ReadFile(path); err == nil {
			var a, b int
			fmt.Sscan(string(text), &a, &b)
			return []int{a, b}
		}
		<-tick.C
	}
	t.Fatalf("no %s", path)
	return nil
}

// zombie says whether a process has ended and nobody has asked how.
func zombie(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(state, "Z")
}

// TestServeConfined looks at the child that has the network, and has it die: another
// takes its place, of which the client is told.
func TestServeConfined(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("no /proc")
	}
	cmd := exec.Command(build(t), "-all", "-serve", claude(t, map[string]any{"k": map[string]any{"url": "http://127.0.0.1:1/"}}))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`+"\n" {
		t.Error(line, err)
	}
	kids, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	found, child := 0, 0
	for _, kid := range kids {
		text, _ := os.ReadFile(kid)
		for pid := range strings.FieldsSeq(string(text)) {
			found++
			child, _ = strconv.Atoi(pid)
			status, _ := os.ReadFile("/proc/" + pid + "/status")
			if !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") || !strings.Contains(string(status), "\nSeccomp:\t2\n") {
				t.Errorf("process %s is not confined:\n%s", pid, status)
			}
		}
	}
	if err != nil || found != 1 {
		t.Errorf("%d children, %v", found, err)
	}
	syscall.Kill(child, syscall.SIGKILL)
	for _, kind := range []string{"tools", "resources", "prompts"} {
		if line, err := lines.ReadString('\n'); line != `{"jsonrpc":"2.0","method":"notifications/`+kind+`/list_changed"}`+"\n" {
			t.Error(line, err)
		}
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if line, err := lines.ReadString('\n'); line != `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`+"\n" {
		t.Error(line, err)
	}
	in.Close()
	io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestServeRefuses has files and options that mean nothing.
func TestServeRefuses(t *testing.T) {
	aggd := build(t)
	bad := filepath.Join(t.TempDir(), "bad.json")
	os.WriteFile(bad, []byte(`{"mcpServers":`), 0o600)
	good := claude(t, map[string]any{})
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ args, want string }{
		{"-serve /no/such.json", "aggd: open /no/such.json: no such file or directory\n"},
		{"-serve " + bad, "aggd: " + bad + ": invalid JSON: ends too early\n"},
		{"-serve " + pipe, "aggd: " + pipe + " is not an ordinary file: name one\n"},
		{"-serve /dev/null", "aggd: /dev/null is not an ordinary file: name one\n"},
		{"-separator= -serve " + good, "aggd: the separator is empty: write some characters\n"},
	} {
		out, err := exec.Command(aggd, strings.Fields(s.args)...).CombinedOutput()
		if err == nil || string(out) != s.want {
			t.Errorf("%s: %v, %s", s.args, err, out)
		}
	}
}
