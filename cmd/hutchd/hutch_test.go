//go:build linux

package main_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// ended tells how a command ended, as a shell would.
func ended(cmd *exec.Cmd) string {
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprint(status.ExitStatus())
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for _, c := range []struct {
		args                     []string
		in, out, complaint, ends string
	}{
		{[]string{"true"}, "", "", "", "0"},
		{[]string{"false"}, "", "", "", "1"},
		{[]string{"sh", "-c", "echo out; echo err >&2; exit 42"}, "", "out\n", "err\n", "42"},
		{[]string{"printf", "%s.", "a b", "it's", "", "$HOME"}, "", "a b.it's..$HOME.", "", "0"},
		{[]string{"echo", "a\nkill"}, "", "a\nkill\n", "", "0"},
		{[]string{"sh", "-c", "echo a\necho 'b\tc'\r\n"}, "", "a\nb\tc\r\n", "", "0"},
		{[]string{"printf", "%s|", "#", "\xff'\n'", "", "a\r", "\n"}, "", "#|\xff'\n'||a\r|\n|", "", "0"},
		{[]string{"sh", "-c", strings.Repeat("# it's nothing\n", 7000) + "echo $0", "long"}, "", "long\n", "", "0"},
		{[]string{"cat"}, "hi\n", "hi\n", "", "0"},
		{[]string{"sh", "-c", "kill -TERM $$"}, "", "", "", "terminated"},
		{[]string{"sh", "-c", "kill -KILL $$"}, "", "", "", "killed"},
		{[]string{"/no/such/program"}, "", "", "hutch: file does not exist: ", "127"},
		{[]string{"/etc/passwd"}, "", "", "hutch: permission denied", "126"},
		{[]string{"-image", "none", "true"}, "", "", "hutch: file does not exist: ", "125"},
		{[]string{}, "", "", "usage: hutch run ", "125"},
		{[]string{"sh", "-c", "cd; pwd; id -u"}, "", "/root\n0\n", "", "0"},
	} {
		cmd := s.command("hutch", append([]string{"run"}, c.args...)...)
		var out, complaint bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.in), &out, &complaint
		cmd.Run()
		if out.String() != c.out || !strings.HasPrefix(complaint.String(), c.complaint) || c.complaint == "" && complaint.Len() > 0 || ended(cmd) != c.ends {
			t.Errorf("hutch run %q ended %s, printed %q, %q", c.args, ended(cmd), out.String(), complaint.String())
		}
	}
	poll(t, "end of all VMs", func() bool { return s.read("status") == "" }) // one that did not start goes after its hutch
}

// TestRunSignals sends hutch run what a terminal and a shell send.
func TestRunSignals(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for _, c := range []struct {
		line, ends, out string
		sig             syscall.Signal
	}{
		{"echo up; exec sleep 1000", "interrupt", "up\n", syscall.SIGINT},
		{"echo up; exec sleep 1000", "terminated", "up\n", syscall.SIGTERM},
		{"trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.01; done", "7", "up\ncaught\n", syscall.SIGINT},
		{"trap 'echo usr; exit 8' USR1; echo up; while :; do sleep 0.01; done", "8", "up\nusr\n", syscall.SIGUSR1},
	} {
		cmd := s.command("hutch", "run", "sh", "-c", c.line)
		printed := printing(t, cmd)
		printed.until("up\n")
		cmd.Process.Signal(c.sig)
		out := printed.rest()
		if cmd.Wait(); ended(cmd) != c.ends || out != c.out {
			t.Errorf("%s: by %v ended %s, printed %q", c.line, c.sig, ended(cmd), out)
		}
	}
}

// TestRunMuch takes 50 MB through a sandbox.
func TestRunMuch(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	seq := exec.Command(need.Tool(t, "seq"), "6500000")
	want, got := sha256.New(), sha256.New()
	seq.Stdout = want
	if err := seq.Run(); err != nil {
		t.Fatal(err)
	}
	cmd := s.command("hutch", "run", "seq", "6500000")
	count := &counter{}
	cmd.Stdout = io.MultiWriter(got, count)
	if err := cmd.Run(); err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Errorf("%v, %d bytes", err, count.n)
	}
	if count.n < 50e6 {
		t.Errorf("%d bytes are not much", count.n)
	}
	// and as input
	in := exec.Command("seq", "2000000")
	pipe, err := in.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Start(); err != nil {
		t.Fatal(err)
	}
	cmd = s.command("hutch", "run", "cksum")
	cmd.Stdin = pipe
	through, err := cmd.Output()
	in.Wait()
	here, _ := exec.Command("sh", "-c", "seq 2000000 | cksum").Output()
	if err != nil || string(through) != string(here) {
		t.Errorf("cksum there %q, %v, here %q", through, err, here)
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n += len(p)
	return len(p), nil
}

// TestVMEnds has VMs end under commands, which tell why and end as shells say.
func TestVMEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	for _, c := range []struct{ name, config, script, message, want, status string }{
		{"memory", "ram 128MiB", "echo ready; read x; head -c 400m /dev/zero | tail", "", "killed: out of memory (ram 128MiB)", "137"},
		{"kill", "", "echo ready; sleep 1000", "kill", "killed", "137"},
		{"stop", "", "echo ready; sleep 1000", "stop", "stopped", "143"},
		{"full", "disk 4MiB", "echo ready; read x; head -c 40m /dev/zero >/workspace/big; sleep 1000", "", "stopped by limit disk: ", "143 or 137"},
	} {
		s.limited(c.name, c.config)
		if c.name == "memory" && !strings.Contains(s.read("vm/memory/status"), "by cgroup") {
			s.write("vm/memory/ctl", "kill\n")
			continue
		}
		cmd := s.command("hutch", "exec", c.name, "sh", "-c", c.script)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		printed := printing(t, cmd)
		printed.until("ready")
		in.Write([]byte("go on\n"))
		// Another client's error is not ours.
		s.command("hutch", "exec", "nobody", "true").Run()
		if c.message != "" {
			s.write("vm/"+c.name+"/ctl", c.message+"\n")
		}
		printed.rest()
		cmd.Wait()
		if got := complaint.String(); !strings.HasPrefix(got, "hutch: vm "+c.name+": "+c.want) || strings.Count(got, "\n") != 1 || !strings.Contains(c.status, ended(cmd)) {
			t.Errorf("%s: ended %s, said %q", c.name, ended(cmd), got)
		}
	}
	cmd := s.command("hutch", "exec", "kill", "true")
	out, _ := cmd.CombinedOutput()
	if got := string(out); got != "hutch: file in use: vm \"kill\" is not running: start it first\n" {
		t.Errorf("exec in one that was killed: %q", got)
	}
	s.vm("asleep")
	s.write("vm/asleep/ctl", "suspend\n")
	out, _ = s.command("hutch", "exec", "asleep", "true").CombinedOutput()
	if got := string(out); !strings.HasPrefix(got, "hutch: file in use: vm \"asleep\" is suspended") {
		t.Errorf("exec in one that is suspended: %q", got)
	}
}

// TestServiceEnds has the service end under a command.
func TestServiceEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	cmd := s.command("hutch", "exec", "dev", "sh", "-c", "echo ready; sleep 1000")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	printed := printing(t, cmd)
	printed.until("ready")
	s.signal(syscall.SIGTERM)
	printed.rest()
	cmd.Wait()
	if got := complaint.String(); got != "hutch: connection to hutchd lost: the command may run on\n" || ended(cmd) != "125" {
		t.Errorf("ended %s, said %q", ended(cmd), got)
	}
}

// TestSubcommands uses each of the rest once.
func TestSubcommands(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	hutch := func(in, want string, args ...string) string {
		t.Helper()
		cmd := s.command("hutch", args...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("hutch %s: %v, %q, want %q", strings.Join(args, " "), err, out, want)
		}
		return string(out)
	}
	hutch("", "README\nasks/\nclients/\nctl\n", "9p", "ls")
	hutch("", "", "9p", "mkdir", "vm/dev")
	hutch("", "clone\ndev/\n", "9p", "ls", "vm")
	hutch("start\n", "", "9p", "write", "vm/dev/ctl")
	hutch("", "running\n", "9p", "read", "vm/dev/status")
	s.tool("dev", "local__echo")
	hutch("text", "", "9p", "write", "vm/dev/work/new")
	hutch("", "text", "exec", "dev", "cat", "/workspace/new")
	hutch("", "", "9p", "rm", "vm/dev/work/new")
	hutch(`{"text":"said"}`+"\n", `"text":"said"`, "9p", "rdwr", "vm/dev/mcp/tools/local__echo/call")
	hutch(`{"text":"at the end"}`, `"text":"at the end"`, "9p", "rdwr", "vm/dev/mcp/tools/local__echo/call")
	hutch("", "hi\n", "call", "dev", "local__echo", `{"text":"hi"}`)
	hutch("{\n\"text\": \"come in\"\n}\n", "come in\n", "call", "vm/dev", "local__echo", "-")
	hutch("", "\nlocal__echo ", "call", "dev")
	hutch("", `{"name":"local__echo","description":"`, "call", "-json", "dev")
	hutch("", `"type":"text","text":"hi"`, "call", "-json", "dev", "local__echo", `{"text":"hi"}`)
	session := s.command("hutch", "9p", "rdwr", "vm/dev/mcp/tools/local__echo/call")
	session.Stdin = strings.NewReader("not json\n" + `{"text":"afterwards"}`)
	if out, _ := session.CombinedOutput(); ended(session) != "1" || !strings.Contains(string(out), "hutch: invalid argument: ") || !strings.Contains(string(out), "afterwards") {
		t.Errorf("a session with an error ended %s: %q", ended(session), out)
	}
	s.mkdir("vm/dev/exec/long")
	words := s.command("hutch", "9p", "write", "vm/dev/exec/long/ctl")
	words.Stdin = strings.NewReader("exec true " + strings.Repeat("x", 128<<10) + "\n")
	if out, _ := words.CombinedOutput(); !strings.HasPrefix(string(out), "hutch: argument list too long: a word or variable of 131072 bytes: at most 131071; ") {
		t.Errorf("a long word: %q", out)
	}
	s.write("vm/dev/exec/long/ctl", "exec sleep 1000\n")
	s.mkdir("vm/dev/exec/lines")
	s.write("vm/dev/exec/lines/ctl", "exec sh -c 'echo a\nsleep 1000'\n")
	out := hutch("", "VM   STATE", "ps")
	for _, want := range []string{"dev  running", "gvisor", "host", "long", "sleep 1000", `sh -c "echo a\nsleep 1000"` + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("ps has no %q:\n%s", want, out)
		}
	}
	calls := s.command("hutch", "calls", "-f", "dev")
	printed := printing(t, calls)
	printed.until("local__echo")
	s.call("dev", "file_list", `{}`)
	printed.until("file_list")
	hutch("", `"tool_name":"file_list"`, "calls", "-json", "dev")
	calls.Process.Signal(os.Interrupt)
	printed.rest()
	if calls.Wait(); ended(calls) != "130" {
		t.Errorf("calls ended %s by an interrupt", ended(calls))
	}
	for _, c := range []struct{ want, args string }{
		{"hutch: file in use: vm \"dev\" is running: stop it first", "9p rm vm/dev"},
		{"hutch: file does not exist", "9p read vm/none/status"},
		{"hutch: file does not exist: no vm \"none\"", "exec none true"},
		{"hutch: file does not exist: no vm \"none\"", "calls none"},
		{"hutch: operation not permitted", "9p mkdir junk"},
		{"hutch: file does not exist: no vm \"none\"", "call none echo"},
		{"hutch: file does not exist: local__ecko: did you mean local__echo?; hutch 9p ls vm/dev/mcp/tools lists the tools", "call dev local__ecko"},
		{"usage: hutch call [FLAGS] OF [TOOL] [JSON]\nhutch: the arguments are no JSON object", "call dev local__echo 7"},
		{"file_read: path \"none\": no such file", "call dev file_read {\"path\":\"none\"}"},
		{"hutch: unknown command", "frob"},
		{"usage: hutch 9p [FLAGS] ls|read|write|rdwr|mkdir|rm PATH", "9p frob"},
	} {
		out, err := s.command("hutch", strings.Fields(c.args)...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("hutch %s: %v, %q, want %q", c.args, err, out, c.want)
		}
	}
	hutch("", "", "9p", "rm", "vm/dev/exec/long")
	hutch("", "", "9p", "rm", "vm/dev/exec/lines")
	hutch("stop\n", "", "9p", "write", "vm/dev/ctl")
	hutch("", "", "9p", "rm", "vm/dev")
	nowhere := s.command("hutch", "-s", "unix!"+s.dir+"/nowhere", "ps")
	if out, err := nowhere.CombinedOutput(); err == nil || !strings.Contains(string(out), "is hutchd running? start it") {
		t.Errorf("without a service: %v, %q", err, out)
	}
}
