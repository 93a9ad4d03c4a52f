//go:build linux

package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// TestSmallWords types what people know from other programs.
func TestSmallWords(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	env := filepath.Join(t.TempDir(), "env")
	os.WriteFile(env, []byte("# a comment\nA=1\n\nB=\"x y\"\r\nNOSUCHVARIABLE\n"), 0o600)
	bad := filepath.Join(t.TempDir(), "bad")
	os.WriteFile(bad, []byte("A=1\nnot one\n"), 0o600)
	for _, c := range []struct{ args, want, ends string }{
		{"-h", "(?s)^usage: hutch .*\n  run .*\n  completion ", "0"},
		{"--help", "^usage: hutch ", "0"},
		{"-s unix!/nosuch help", "^usage: hutch ", "0"},
		{"run --help", "(?s)^usage: hutch run .*-env-file", "0"},
		{"help stats", "^usage: hutch stats ", "0"},
		{"--version", "^hutch .*\nservice: hutch ", "0"},
		{"-nosuch", "(?s)^hutch: flag provided but not defined: -nosuch\nusage: hutch ", "2"},
		{"logout", "^hutch: unknown command .*: did you mean server logout\\?", "2"},
		{"run --env-file " + env + " -e A=2 sh -c echo|$A;echo|$B;env", "(?s)^2\n\"x y\"\n", "0"},
		{"run -env-file " + bad + " true", `(?s)^usage: hutch run .*-env-file: line 2: "not one": want K=V or K`, "125"},
		{"run -env-file /nosuch true", "(?s)^usage: hutch run .*/nosuch: no such file", "125"},
		{"create -ram 256MB -allow pypi.org dev", "^$", "0"},
		{"config dev", "(?s)^profile run-dev\nram 256MB\n.*# default: net host-proxy\n", "0"},
		{"profile ls", "^default\nrun-dev\n$", "0"},
		{"cp - dev:f", "cp has no standard input or output", "1"},
		{"policy rules servers/none", `^hutch: file does not exist: no server "none"`, "1"},
		{"server run ./words_test.go", `./words_test.go is not executable: chmod \+x it`, "1"},
		{"profile show run-dev", `(?m)^network.allow user run-dev.toml:6 open \["pypi.org"\]$`, "0"},
		{"create -profile run-dev -allow b.org:443 -allow *.c.org two", "^$", "0"},
		{"profile show run-two", `(?m)^network.allow user .* \["pypi.org", "b.org:443", "\*.c.org"\]$`, "0"},
		{"create -net none -allow pypi.org bad", "-allow and -net none exclude each other", "1"},
		{"create -allow a,b bad", "no name of a host", "1"},
		{"create -profile nosuch -allow pypi.org bad", `profile "nosuch": see profiles`, "1"},
		{"run -allow pypi.org sh -c echo|$HTTP_PROXY", "^http://", "0"},
		{"9p ls profiles", "^default.toml\nerr\nrun-dev.toml\nrun-two.toml\nshow\n$", "0"}, // nothing of the others
		{"run -d -p 80 true", "-p and -d exclude each other", "125"},
		{"run -p x true", `(?s)^usage: hutch run .*"x": want \[ADDR:\]PORT:PORT`, "125"},
		{"shell dev", `^hutch: .*"dev" does not run, it is created`, "125"},
		{"port dev", `^hutch: .*"dev" does not run, it is created`, "1"},
		{"stats dev", `^hutch: .*"dev" does not run, it is created`, "1"},
		{"start dev", "^$", "0"},
		{"exec dev sh -c echo|x>f;mkdir|/etc/d", "^$", "0"},
		{"diff dev", "(?m)^added layer/etc/d/\n(.*\n)*added work/f$", "0"},
		{"snap dev one", "^$", "0"},
		{"exec dev rm f", "^$", "0"},
		{"diff dev one", "^removed work/f\n$", "0"},
		{"diff dev one now", "^removed work/f\n$", "0"},
		{"diff dev none", `^hutch: file does not exist: snapshot "none"`, "1"},
		{"diff none", `^hutch: file does not exist: no vm "none"`, "1"},
		{"stats", `^VM +CPU +MEMORY +DISK +PIDS +UPTIME\ndev +[\d.]+% +.*MiB / 256MB .* of 512 +\d+s\n$`, "0"},
		{"stats -json dev", `^\{"vm":"dev","cpu":"[\d.]+%",.*"pids":"\d+ of 512"`, "0"},
		{"inspect dev", "(?s)^# vm/dev/status\nstate running\n.*\n# vm/dev/config\nprofile run-dev\n.*\nsnapshots one\nports \\d+\n$", "0"},
		{"inspect -json dev", `^\{"commands":\[\],"config":\{.*"ram":"256MB".*"snapshots":\["one"\],"status":\{.*"state":"running"`, "0"},
		{"inspect -json images/host", `"info":\{.*"kind":"host".*"state":"ready"`, "0"},
		{"inspect images/none", `^hutch: file does not exist: no image "none"`, "1"},
		{"inspect none", `^hutch: file does not exist: no vm "none"`, "1"},
		{"prune", "(?s)^VMs.*: two\nhutch: .*nobody can be asked here: -yes removes them\n$", "1"},
		{"prune -images -yes", "^VMs, with their files and records: two\n$", "0"},
		{"ps -q", "^dev\n$", "0"},
		{"doctor", `^STATE +CHECK +WHAT\nok +service +hutch .* at unix!(?s:.*)\nok +programs .*\nok +driver +gvisor `, "0"},
		{"doctor -json", `^\{"state":"ok","check":"service","text":"hutch .*"\}\n\{"state":"ok","check":"kernel"`, "0"},
		{"-s unix!/nosuch/9p doctor", `(?s)\nwarn +service +none runs at unix!/nosuch/9p: .*\nok +driver +gvisor `, "0"},
		{"prune -yes", "^hutch: nothing is unused\n$", "0"},
	} {
		words := strings.Fields(c.args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "|", " ")
		}
		cmd := s.command("hutch", words...)
		out, _ := cmd.CombinedOutput()
		if !regexp.MustCompile(c.want).Match(out) || ended(cmd) != c.ends {
			t.Errorf("hutch %s: %s, %q, want %s, %q", c.args, ended(cmd), out, c.ends, c.want)
		}
	}
	shell := s.command("hutch", "shell", "dev")
	shell.Stdin = strings.NewReader("echo in $HUTCH_VM; exit 7\n")
	if out, _ := shell.CombinedOutput(); string(out) != "in dev\n" || ended(shell) != "7" {
		t.Errorf("shell: %s, %q", ended(shell), out)
	}
}

// TestRunPorts has a port lead to a server in a sandbox for as long as that runs.
func TestRunPorts(t *testing.T) {
	t.Parallel()
	python := need.Tool(t, "/usr/bin/python3")
	s := serve(t, false)
	s.vm("dev")
	cmd := s.command("hutch", "run", "-name", "web", "-p", "127.0.0.1:0:8099", python, "-u", "-c",
		"import socket; s=socket.create_server(('',8099)); print('up', flush=True); c,_=s.accept(); c.sendall(b'hello'); c.close(); input()")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	printed := printing(t, cmd)
	printed.until("up\n")
	text, _ := os.ReadFile(said.Name())
	at := regexp.MustCompile(`^hutch: (.*) leads to port 8099\n$`).FindSubmatch(text)
	if at == nil {
		t.Fatalf("hutch says %q", text)
	}
	if out, err := s.command("hutch", "port", "web").Output(); !strings.Contains(string(out), "\n8099  0.0.0.0  hutch forward web 8099\n") {
		t.Errorf("port: %q, %v", out, err)
	}
	conn, err := net.Dial("tcp", string(at[1]))
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 5)
	if n, err := conn.Read(p); string(p[:n]) != "hello" {
		t.Errorf("%q, %v", p[:n], err)
	}
	conn.Close()
	in.Close()
	printed.rest()
	cmd.Wait()
	if _, err := net.Dial("tcp", string(at[1])); err == nil {
		t.Error("the port leads there still")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := s.command("hutch", "run", "-name", "none", "-p", strings.TrimPrefix(l.Addr().String(), "127.0.0.1:")+":80", "true")
	if out, err := taken.CombinedOutput(); err == nil || !strings.Contains(string(out), "address already in use") {
		t.Errorf("a port that is taken: %q", out)
	}
	if out, _ := s.command("hutch", "ps", "-q").Output(); string(out) != "dev\nweb\n" {
		t.Errorf("there are %q", out)
	}
}

// TestRunStarts has run start a service where none runs.
func TestRunStarts(t *testing.T) {
	t.Parallel()
	s := newService(t, false)
	bin := t.TempDir()
	install(t, filepath.Join(s.bin, "hutch"), bin)
	script := fmt.Sprintf("#!/bin/sh\nexec %s/hutchd -state %s -mount none \"$@\"\n", s.bin, s.state())
	if err := os.WriteFile(filepath.Join(bin, "hutchd"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	run := s.user(filepath.Join(bin, "hutch"), "run", "echo", "hi")
	out, _ := run.CombinedOutput()
	said := regexp.MustCompile(`(?s)^hutch: started hutchd, process (\d+); its log is .*/log/service\n(.*)$`).FindSubmatch(out)
	if said == nil {
		t.Fatalf("run: %s", out)
	}
	pid, _ := strconv.Atoi(string(said[1]))
	defer syscall.Kill(pid, syscall.SIGTERM)
	if string(said[2]) != "hi\n" {
		need.Missing(t, string(said[2]))
	}
	if out, err := s.user(filepath.Join(bin, "hutch"), "run", "echo", "again").CombinedOutput(); string(out) != "again\n" || err != nil {
		t.Errorf("again: %q, %v", out, err)
	}
	shutdown := s.user(filepath.Join(bin, "hutch"), "9p", "write", "ctl")
	shutdown.Stdin = strings.NewReader("shutdown\n")
	if out, err := shutdown.CombinedOutput(); err != nil {
		t.Errorf("shutdown: %v: %s", err, out)
	}
	poll(t, "end of hutchd", func() bool { return syscall.Kill(pid, 0) != nil })
	for _, elsewhere := range []string{"tcp!127.0.0.1!1", "unix!" + s.dir + "/a/b/" + strings.Repeat("long", 50)} {
		if out, err := s.user(filepath.Join(bin, "hutch"), "-s", elsewhere, "run", "true").CombinedOutput(); err == nil || strings.Contains(string(out), "started") {
			t.Errorf("at %s: %q", elsewhere, out)
		}
	}
}
